//! A plain HTTP/1.1 client: one kept connection, no more than this harness needs, and nothing that hides an error.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The most a head or a body may have: more is not an answer of the service.
const MOST_BYTES: usize = 256 << 20;

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The head as it came, without the empty line.
    head: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.head, name)
    }

    /// The body as text, damaged characters replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; `null` if it is none.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A request in the making.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) key: Option<String>,
    pub(crate) secret: Option<String>,
    pub(crate) body: Option<String>,
}

impl Request {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: "GET",
            path: path.into(),
            ..Self::default()
        }
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self {
            method: "DELETE",
            ..Self::get(path)
        }
    }

    pub(crate) fn post(path: impl Into<String>, body: impl Into<String>) -> Self {
        Self {
            method: "POST",
            body: Some(body.into()),
            ..Self::get(path)
        }
    }

    /// With an idempotency key.
    pub(crate) fn keyed(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// With a secret in the Authorization header.
    pub(crate) fn by(mut self, secret: &str) -> Self {
        self.secret = Some(secret.to_owned());
        self
    }

    /// The bytes that are sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        use std::fmt::Write as _;
        let mut head = format!("{} {} HTTP/1.1\r\nhost: siege\r\n", self.method, self.path);
        let mut line = |name: &str, value: &str| {
            let _ = write!(head, "{name}: {value}\r\n");
        };
        if let Some(secret) = &self.secret {
            line("authorization", &format!("Bearer {secret}"));
        }
        if let Some(key) = &self.key {
            line("idempotency-key", key);
        }
        if let Some(body) = &self.body {
            line("content-type", "application/json");
            line("content-length", &body.len().to_string());
        }
        head.push_str("\r\n");
        head.push_str(self.body.as_deref().unwrap_or_default());
        head.into_bytes()
    }
}

/// A connection that is kept, and opened again when it was lost.
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    patience: Duration,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Client {
    /// A client that waits so long for each answer.
    pub(crate) fn new(address: SocketAddr, patience: Duration) -> Self {
        Self {
            address,
            patience,
            stream: None,
            buffer: Vec::new(),
        }
    }

    /// Turns to another address, if it is another.
    pub(crate) fn turn_to(&mut self, address: SocketAddr) {
        if address != self.address {
            self.address = address;
            self.stream = None;
        }
    }

    /// Sends a request and waits for its answer. After an error nobody knows whether it was carried out.
    pub(crate) async fn send(&mut self, request: &Request) -> io::Result<Response> {
        self.send_bytes(&request.bytes()).await
    }

    /// Sends bytes as they are and waits for one answer.
    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<Response> {
        let answer = match timeout(self.patience, self.exchange(bytes)).await {
            Ok(answer) => answer,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        match &answer {
            Ok(response) if response.header("connection").is_none_or(|value| value != "close") => {}
            _ => self.stream = None,
        }
        answer
    }

    async fn exchange(&mut self, bytes: &[u8]) -> io::Result<Response> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            self.stream = Some(stream);
            self.buffer.clear();
        }
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        stream.write_all(bytes).await?;
        read_response(stream, &mut self.buffer).await
    }
}

/// Reads one answer; what follows it stays in the buffer.
pub(crate) async fn read_response(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Response> {
    let (status, head, start) = loop {
        if let Some(end) = find(buffer, b"\r\n\r\n") {
            let status = std::str::from_utf8(&buffer[..end])
                .ok()
                .and_then(|head| head.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok())
                .ok_or_else(|| damaged("expected an HTTP/1 head"))?;
            if status == 100 {
                buffer.drain(..end + 4);
                continue;
            }
            break (status, buffer[..end].to_vec(), end + 4);
        }
        more(stream, buffer).await?;
    };
    let mut response = Response {
        status,
        head,
        body: Vec::new(),
    };
    let chunked = response
        .header("transfer-encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    let end = if chunked {
        chunks(stream, buffer, start, &mut response.body).await?
    } else if let Some(length) = response.header("content-length") {
        let length: usize = length.parse().map_err(|_| damaged("expected a length"))?;
        while buffer.len() < start + length {
            more(stream, buffer).await?;
        }
        response.body = buffer[start..start + length].to_vec();
        start + length
    } else if matches!(status, 204 | 304) {
        start
    } else {
        return Err(damaged("expected an answer with a length"));
    };
    buffer.drain(..end);
    Ok(response)
}

/// Reads a body in chunks from a place of the buffer on; gives the place behind it.
async fn chunks(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    mut at: usize,
    body: &mut Vec<u8>,
) -> io::Result<usize> {
    loop {
        let line = loop {
            if let Some(end) = find(&buffer[at..], b"\r\n") {
                break end;
            }
            more(stream, buffer).await?;
        };
        let size = std::str::from_utf8(&buffer[at..at + line])
            .ok()
            .and_then(|size| usize::from_str_radix(size.split(';').next()?.trim(), 16).ok())
            .filter(|size| *size <= MOST_BYTES)
            .ok_or_else(|| damaged("expected the size of a chunk"))?;
        at += line + 2;
        while buffer.len() < at + size + 2 {
            more(stream, buffer).await?;
        }
        body.extend_from_slice(&buffer[at..at + size]);
        at += size + 2;
        if size == 0 {
            return Ok(at);
        }
    }
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<()> {
    if buffer.len() > MOST_BYTES {
        return Err(damaged("an answer without end"));
    }
    match stream.read_buf(buffer).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn find_header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        line[..colon]
            .eq_ignore_ascii_case(name.as_bytes())
            .then(|| std::str::from_utf8(&line[colon + 1..]).ok())?
            .map(str::trim)
    })
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn answers_with_a_length_and_in_chunks_are_read_on_one_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let both = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nok\
                        HTTP/1.1 409 No\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
            for piece in both.as_bytes().chunks(7) {
                stream.write_all(piece).await.unwrap();
                stream.flush().await.unwrap();
            }
            std::future::pending::<()>().await;
        });
        let mut client = Client::new(address, Duration::from_secs(20));
        let first = client.send(&Request::get("/")).await.unwrap();
        assert_eq!(
            (first.status, first.text().as_str(), first.header("x-a")),
            (200, "ok", Some("b"))
        );
        let second = client.send(&Request::get("/")).await.unwrap();
        assert_eq!((second.status, second.text().as_str()), (409, "abcd"));
    }
}
