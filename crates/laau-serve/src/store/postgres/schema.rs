//! The tables in PostgreSQL, made and brought up to date by numbered steps.

use tokio_postgres::{Client, Error};

/// The steps, from an empty database to the format that this program writes. A step that was released is never changed.
const STEPS: [&str; 1] = [include_str!("format-1.sql")];

/// The format that this program writes.
#[expect(clippy::cast_possible_truncation, reason = "there are few steps")]
pub(super) const FORMAT: u32 = STEPS.len() as u32;

/// Several nodes may start at once: one makes the tables, the others wait. The number is `laau-ser` in ASCII.
const LOCK: i64 = 0x6c61_6175_2d73_6572;

/// What a database holds.
pub(super) enum Found {
    /// Tables of this program's format.
    Ours,
    /// Something else.
    Other(String),
}

/// Brings the tables up to date, all of it or nothing.
pub(super) async fn migrate(client: &mut Client) -> Result<Found, Error> {
    let transaction = client.transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await?;
    let row = transaction
        .query_one(
            "SELECT to_regnamespace('laau_serve') IS NOT NULL, to_regclass('laau_serve.format') IS NOT NULL",
            &[],
        )
        .await?;
    match (row.get(0), row.get(1)) {
        (true, true) => {}
        (true, false) => return Ok(Found::Other("a schema laau_serve of another program".to_owned())),
        (false, _) => {
            let make = "CREATE SCHEMA laau_serve;
                CREATE TABLE laau_serve.format (version integer PRIMARY KEY, since timestamptz NOT NULL DEFAULT now())";
            transaction.batch_execute(make).await?;
        }
    }
    let row = transaction
        .query_one("SELECT coalesce(max(version), 0) FROM laau_serve.format", &[])
        .await?;
    let found = u32::try_from(row.get::<_, i32>(0)).unwrap_or(u32::MAX);
    if found > FORMAT {
        return Ok(Found::Other(format!("format {found}")));
    }
    for (version, step) in (1_i32..).zip(STEPS).skip(found as usize) {
        transaction.batch_execute(step).await?;
        let done = "INSERT INTO laau_serve.format (version) VALUES ($1)";
        transaction.execute(done, &[&version]).await?;
    }
    transaction.commit().await?;
    Ok(Found::Ours)
}
