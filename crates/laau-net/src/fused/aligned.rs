use std::ops::{Deref, DerefMut};

/// A table of floats that starts at a cache line, so that no vector of it crosses one.
#[derive(Debug)]
pub(super) struct Aligned {
    values: Vec<f64>,
    start: usize,
    end: usize,
}

impl Aligned {
    const LINE_BYTES: usize = 64;
    const LINE: usize = Self::LINE_BYTES / size_of::<f64>();

    pub(super) fn zeros(len: usize) -> Self {
        let values = vec![0.0; len + Self::LINE];
        let start = values.as_ptr().align_offset(Self::LINE_BYTES).min(Self::LINE);
        Self {
            values,
            start,
            end: start + len,
        }
    }
}

impl Deref for Aligned {
    type Target = [f64];

    #[inline(always)]
    fn deref(&self) -> &[f64] {
        &self.values[self.start..self.end]
    }
}

impl DerefMut for Aligned {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f64] {
        &mut self.values[self.start..self.end]
    }
}

impl Clone for Aligned {
    fn clone(&self) -> Self {
        let mut copy = Self::zeros(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_and_its_copy_start_at_a_line() {
        for len in [1, 7, 8, 1000] {
            let mut table = Aligned::zeros(len);
            table[len - 1] = 1.0;
            let copy = table.clone();
            assert_eq!(copy[..], table[..]);
            for table in [&table, &copy] {
                assert_eq!(table.as_ptr().align_offset(Aligned::LINE_BYTES), 0);
            }
        }
    }
}
