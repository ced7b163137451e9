//! The rival's two stores: durable and transactional, both; the fault is in what is done between two transactions.

use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context as _;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use serde_json::Value;

use crate::world::lock;

/// Rows by name and lines by account, period and number.
pub(super) trait Store: Send + Sync {
    /// A row.
    fn read(&self, name: &str) -> anyhow::Result<Option<Value>>;

    /// Lines of a period, from a number on.
    fn lines(&self, period: &str, from: u64) -> anyhow::Result<Vec<Value>>;

    /// Writes rows and appends a line at the end of a period; the line is made of its number. Gives the line's number.
    fn write(
        &self,
        rows: &[(String, Value)],
        period: &str,
        line: &dyn Fn(u64) -> Value,
    ) -> anyhow::Result<Value>;
}

const ROWS: TableDefinition<&str, &str> = TableDefinition::new("rows");
const LINES: TableDefinition<(&str, u64), &str> = TableDefinition::new("lines");

/// On the embedded store.
pub(super) struct Redb(Database);

impl Redb {
    pub(super) fn new(path: &Path) -> anyhow::Result<Self> {
        let database = Database::create(path)?;
        let write = database.begin_write()?;
        write.open_table(ROWS)?;
        write.open_table(LINES)?;
        write.commit()?;
        Ok(Self(database))
    }
}

impl Store for Redb {
    fn read(&self, name: &str) -> anyhow::Result<Option<Value>> {
        let table = self.0.begin_read()?.open_table(ROWS)?;
        let row = table.get(name)?;
        Ok(row.map(|row| serde_json::from_str(row.value())).transpose()?)
    }

    fn lines(&self, period: &str, from: u64) -> anyhow::Result<Vec<Value>> {
        let table = self.0.begin_read()?.open_table(LINES)?;
        let lines = table.range((period, from)..=(period, u64::MAX))?;
        lines
            .map(|line| Ok(serde_json::from_str(line?.1.value())?))
            .collect()
    }

    fn write(
        &self,
        rows: &[(String, Value)],
        period: &str,
        line: &dyn Fn(u64) -> Value,
    ) -> anyhow::Result<Value> {
        let write = self.0.begin_write()?;
        let line = {
            let mut table = write.open_table(ROWS)?;
            for (name, row) in rows {
                table.insert(name.as_str(), row.to_string().as_str())?;
            }
            let mut table = write.open_table(LINES)?;
            let last = table
                .range((period, 0)..=(period, u64::MAX))?
                .next_back()
                .transpose()?;
            let number = last.map_or(0, |(key, _)| key.value().1 + 1);
            let line = line(number);
            table.insert((period, number), line.to_string().as_str())?;
            line
        };
        write.commit()?;
        Ok(line)
    }
}

/// On PostgreSQL, with a connection for everybody who asks at the same time.
pub(super) struct Postgres {
    url: String,
    /// Never dropped: a connection ends by blocking, which a task may not.
    idle: Mutex<ManuallyDrop<Vec<postgres::Client>>>,
}

impl Postgres {
    pub(super) fn new(url: &str) -> anyhow::Result<Self> {
        let store = Self {
            url: url.to_owned(),
            idle: Mutex::new(ManuallyDrop::default()),
        };
        store.with(|client| {
            Ok(client.batch_execute(
                "CREATE TABLE rows (name text PRIMARY KEY, value text NOT NULL);
                 CREATE TABLE lines (period text, number bigint, value text NOT NULL, PRIMARY KEY (period, number))",
            )?)
        })?;
        Ok(store)
    }

    fn with<T>(&self, work: impl FnOnce(&mut postgres::Client) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let idle = lock(&self.idle).pop();
        let mut client = match idle {
            Some(client) => client,
            None => postgres::Client::connect(&self.url, postgres::NoTls)?,
        };
        let result = work(&mut client);
        lock(&self.idle).push(client);
        result
    }
}

impl Store for Postgres {
    fn read(&self, name: &str) -> anyhow::Result<Option<Value>> {
        self.with(|client| {
            let row = client.query_opt("SELECT value FROM rows WHERE name = $1", &[&name])?;
            Ok(row.map(|row| serde_json::from_str(row.get(0))).transpose()?)
        })
    }

    fn lines(&self, period: &str, from: u64) -> anyhow::Result<Vec<Value>> {
        let from = i64::try_from(from)?;
        self.with(|client| {
            let rows = client.query(
                "SELECT value FROM lines WHERE period = $1 AND number >= $2 ORDER BY number",
                &[&period, &from],
            )?;
            rows.iter()
                .map(|row| Ok(serde_json::from_str(row.get(0))?))
                .collect()
        })
    }

    fn write(
        &self,
        rows: &[(String, Value)],
        period: &str,
        line: &dyn Fn(u64) -> Value,
    ) -> anyhow::Result<Value> {
        self.with(|client| {
            let mut write = client.transaction()?;
            // One after the other, so that lines have numbers: the fault is not here.
            write.execute("SELECT pg_advisory_xact_lock(1)", &[])?;
            for (name, row) in rows {
                write.execute(
                    "INSERT INTO rows VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                    &[name, &row.to_string()],
                )?;
            }
            let number: i64 = write
                .query_one("SELECT coalesce(max(number) + 1, 0) FROM lines WHERE period = $1", &[&period])?
                .get(0);
            let line = line(u64::try_from(number).context("a number below zero")?);
            write.execute("INSERT INTO lines VALUES ($1, $2, $3)", &[&period, &number, &line.to_string()])?;
            write.commit()?;
            Ok(line)
        })
    }
}
