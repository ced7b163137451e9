use std::ops::{Deref, DerefMut};

/// A table of numbers that starts at a cache line, so that no vector of it crosses one.
#[derive(Debug)]
pub(super) struct Aligned<T = f64> {
    values: Vec<T>,
    start: usize,
    end: usize,
}

impl<T: Copy + Default> Aligned<T> {
    const LINE_BYTES: usize = 64;
    const LINE: usize = Self::LINE_BYTES / size_of::<T>();

    pub(super) fn zeros(len: usize) -> Self {
        let values = vec![T::default(); len + Self::LINE];
        let start = values.as_ptr().align_offset(Self::LINE_BYTES).min(Self::LINE);
        Self {
            values,
            start,
            end: start + len,
        }
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.values[self.start..self.end]
    }
}

impl<T> DerefMut for Aligned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[self.start..self.end]
    }
}

impl<T: Copy + Default> Clone for Aligned<T> {
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
            let mut table = Aligned::<f64>::zeros(len);
            table[len - 1] = 1.0;
            let copy = table.clone();
            assert_eq!(copy[..], table[..]);
            for table in [&table, &copy] {
                assert_eq!(table.as_ptr().align_offset(Aligned::<f64>::LINE_BYTES), 0);
            }
        }
    }
}
