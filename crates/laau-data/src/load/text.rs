//! Many short texts in one allocation.

/// A list of texts, one after the other in one string.
#[derive(Debug, Clone, Default)]
pub(crate) struct Texts {
    text: String,
    ends: Vec<usize>,
}

impl Texts {
    /// An empty list, with room for the ends of a number of texts.
    pub(crate) fn with_capacity(texts: usize) -> Self {
        Self {
            text: String::new(),
            ends: Vec::with_capacity(texts),
        }
    }

    /// Number of texts.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Makes room for so many bytes of text.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.text.reserve(bytes);
    }

    /// Appends a text.
    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// The place of the first empty text.
    pub(crate) fn first_empty(&self) -> Option<usize> {
        let mut start = 0;
        self.ends
            .iter()
            .position(|&end| std::mem::replace(&mut start, end) == end)
    }

    /// One text.
    pub(crate) fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }
}

impl<'a> FromIterator<&'a str> for Texts {
    fn from_iter<I: IntoIterator<Item = &'a str>>(texts: I) -> Self {
        let texts = texts.into_iter();
        let mut list = Self::with_capacity(texts.size_hint().0);
        texts.for_each(|text| list.push(text));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_gives_back_its_texts() {
        let list: Texts = ["a/b+", "", "ü"].into_iter().collect();
        assert_eq!(
            (list.len(), list.get(0), list.get(1), list.get(2)),
            (3, "a/b+", "", "ü")
        );
        assert_eq!(list.first_empty(), Some(1));
    }
}
