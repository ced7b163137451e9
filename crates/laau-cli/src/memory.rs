//! The memory that work takes, asked for before it is begun: an allocation that fails ends the process.

use std::path::Path;

use crate::failure::Failure;

/// Refuses what would not fit into the memory that is free; 4 GiB where that is not known.
pub(crate) fn check(what: &str, needed: u128, hint: &str) -> Result<(), Failure> {
    const GIB: u128 = 1 << 30;
    let free = free_memory(Path::new("/")).unwrap_or(4 * GIB);
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

/// Bytes of memory that can be had without swapping, where the system says: of the machine, or of the control group if that
/// has less. `root` is the folder of `proc` and `sys`.
fn free_memory(root: &Path) -> Option<u128> {
    let machine = || {
        let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kib: u128 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    };
    machine().into_iter().chain(free_of_group(root)).min()
}

/// What a limit on memory leaves: the least over the control group of this process and those that hold it, version 1 or 2.
fn free_of_group(root: &Path) -> Option<u128> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut least = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (mount, limit, used) = if controllers.is_empty() {
            ("sys/fs/cgroup", "memory.max", "memory.current")
        } else if controllers.split(',').any(|name| name == "memory") {
            (
                "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
        } else {
            continue;
        };
        // In a container the mount may be the group itself: a path that is not there has nothing to say, and the mount has.
        for group in Path::new(group.trim_start_matches('/')).ancestors() {
            let folder = root.join(mount).join(group);
            let number = |name: &str| -> Option<u128> {
                std::fs::read_to_string(folder.join(name))
                    .ok()?
                    .trim()
                    .parse()
                    .ok()
            };
            let (Some(limit), Some(used)) = (number(limit), number(used)) else {
                continue;
            };
            // Pages of files that nobody uses count as used, and are given up when memory is wanted.
            let statistics = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
            let given_up: u128 = ["total_inactive_file ", "inactive_file "]
                .iter()
                .find_map(|name| {
                    statistics
                        .lines()
                        .find_map(|line| line.strip_prefix(name)?.parse().ok())
                })
                .unwrap_or(0);
            let free = limit.saturating_sub(used.saturating_sub(given_up));
            least = Some(least.map_or(free, |least: u128| least.min(free)));
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u128 = 1 << 20;

    /// The free memory where these files, and a machine with 8 GiB, are all that there is.
    fn free(files: &[(&str, &str)]) -> Option<u128> {
        let root = tempfile::tempdir().unwrap();
        let all = [("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    8388608 kB\n")];
        for (name, text) in all.iter().chain(files) {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        free_memory(root.path())
    }

    #[test]
    fn a_machine_without_limits_has_what_it_says() {
        assert_eq!(free(&[]), Some(8192 * MIB));
        let unlimited = [
            ("proc/self/cgroup", "0::/user.slice\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/memory.current", "1048576\n"),
        ];
        assert_eq!(free(&unlimited), Some(8192 * MIB));
        let above = [
            ("proc/self/cgroup", "7:cpu,memory:/\n"),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n"),
        ];
        assert_eq!(free(&above), Some(8192 * MIB));
    }

    #[test]
    fn the_limit_of_a_group_or_of_one_that_holds_it_counts() {
        // 512 MiB, of which 100 are used, 40 of them by files that nobody reads.
        let limited = [
            ("proc/self/cgroup", "0::/outer/inner\n"),
            ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
            ("sys/fs/cgroup/outer/memory.max", "536870912\n"),
            ("sys/fs/cgroup/outer/memory.current", "104857600\n"),
            (
                "sys/fs/cgroup/outer/memory.stat",
                "anon 1\ninactive_file 41943040\n",
            ),
        ];
        assert_eq!(free(&limited), Some((512 - 60) * MIB));
        // Version 1, in a container that sees its own group as the mount.
        let first = [
            ("proc/self/cgroup", "3:memory:/docker/abc\n2:cpu:/x\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n"),
            (
                "sys/fs/cgroup/memory/memory.stat",
                "inactive_file 1\ntotal_inactive_file 41943040\n",
            ),
        ];
        assert_eq!(free(&first), Some((512 - 60) * MIB));
    }
}
