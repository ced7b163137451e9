//! The memory that work takes, asked for before it is begun: an allocation that fails ends the process.

use crate::failure::Failure;

/// Refuses what would not fit into the memory that is free; 4 GiB where that is not known.
pub(crate) fn check(what: &str, needed: u128, hint: &str) -> Result<(), Failure> {
    const GIB: u128 = 1 << 30;
    let free = free_memory().unwrap_or(4 * GIB);
    if needed <= free {
        return Ok(());
    }
    Err(Failure::new(
        format_args!(
            "{what} about {} GiB of memory, {} GiB are free",
            needed.div_ceil(GIB),
            free / GIB
        ),
        hint,
    ))
}

/// Bytes of memory that can be had without swapping, where the system says.
fn free_memory() -> Option<u128> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u128 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
