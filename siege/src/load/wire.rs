//! The least that a client of HTTP/1.1 can do: it shares the cores with what it measures, as pgbench does.

use std::fmt::{Arguments, Write as _};
use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// One kept connection, on which every answer must be a 200 with a length.
pub(super) struct Wire {
    address: SocketAddr,
    stream: Option<TcpStream>,
    sent: String,
    read: Vec<u8>,
}

impl Wire {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            stream: None,
            sent: String::new(),
            read: Vec::with_capacity(4096),
        }
    }

    /// Writes the next request, in the room of the last.
    pub(super) fn write(&mut self, request: Arguments<'_>) -> anyhow::Result<()> {
        self.sent.clear();
        Ok(self.sent.write_fmt(request)?)
    }

    /// Sends what was written and reads its answer to the end.
    pub(super) async fn exchange(&mut self) -> anyhow::Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            self.stream = Some(stream);
        }
        let stream = self.stream.as_mut().context("no connection")?;
        stream.write_all(self.sent.as_bytes()).await?;
        self.read.clear();
        loop {
            ensure!(stream.read_buf(&mut self.read).await? > 0, "the connection ended");
            if let Some(length) = answer(&self.read) {
                ensure!(
                    self.read.starts_with(b"HTTP/1.1 200 ") && length == self.read.len(),
                    "{}",
                    String::from_utf8_lossy(&self.read)
                );
                return Ok(());
            }
        }
    }
}

/// The length of a whole answer, once all of it is there.
fn answer(read: &[u8]) -> Option<usize> {
    const LENGTH: &[u8] = b"content-length: ";
    let mut at = 0;
    let mut length = None;
    // Line by line: headers are few and short.
    loop {
        let line = &read[at..];
        let end = line.iter().position(|byte| *byte == b'\n')?;
        at += end + 1;
        if end <= 1 {
            // An answer without a length has no body that this client would know the end of.
            let whole = at + length.unwrap_or(0);
            return (read.len() >= whole).then_some(whole);
        }
        if let Some(digits) = line[..end].trim_ascii_end().strip_prefix(LENGTH) {
            length = std::str::from_utf8(digits).ok()?.parse().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::answer;

    #[test]
    fn an_answer_is_whole_with_the_last_byte_of_its_body() {
        let text = b"HTTP/1.1 200 OK\r\ncontent-type: a\r\ncontent-length: 3\r\ndate: b\r\n\r\nabc";
        for length in 0..text.len() {
            assert_eq!(answer(&text[..length]), None, "{length}");
        }
        assert_eq!(answer(text), Some(text.len()));
    }
}
