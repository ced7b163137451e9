//! Server-sent events: what becomes durable in an account, as it happens.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::access::AccountName;
use super::openapi::Refusals;
use super::problem::Refusal;
use super::service::Service;
use crate::authority::Notice;
use crate::entry::Scope;

/// Streams what becomes durable in an account: `event: entry` with a `Notice` as data and the entry's place as `id`. A comment comes
/// every few seconds as a sign of life. A reader that does not keep up is told so by `event: dropped`, and the stream ends; the log has
/// what it missed.
#[utoipa::path(get, path = "/v1/accounts/{account}/events", operation_id = "streamEvents", tag = "accounts",
    params(("account" = String, Path, description = "The account's name")),
    responses((status = 200, description = "The stream", content_type = "text/event-stream", body = Notice), Refusals),
    security(("key" = [])))]
pub(super) async fn stream(
    State(service): State<Arc<Service>>,
    AccountName(account): AccountName,
    request: Request,
) -> Result<Response, Refusal> {
    let caller = service.caller(request.uri(), request.headers()).await?;
    caller.on(&account, Scope::Read)?;
    let Ok(place) = Arc::clone(&service.streams).try_acquire_owned() else {
        let most = service.options.streams;
        return Err(Refusal::Streams { most });
    };
    // First the ear, then the look: nothing that happens in between is missed.
    let notices = service.authority.subscribe();
    service.wait(service.authority.account(&account)).await?;
    let beat = service.options.heartbeat;
    let mut heartbeat = tokio::time::interval_at(Instant::now() + beat, beat);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let listener = Listener {
        ending: service.ending.clone(),
        service,
        account,
        key: caller.id,
        notices,
        heartbeat,
        greeted: false,
        over: false,
        _place: place,
    };
    let events = futures_util::stream::unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok::<_, Infallible>(event), listener))
    });
    Ok(([(CACHE_CONTROL, "no-store")], Sse::new(events)).into_response())
}

/// One reader. It holds nothing back: while it does not read, nothing is taken from the channel, which forgets the oldest.
struct Listener {
    service: Arc<Service>,
    account: String,
    key: Option<String>,
    notices: Receiver<Arc<Notice>>,
    heartbeat: Interval,
    ending: watch::Receiver<bool>,
    greeted: bool,
    over: bool,
    _place: OwnedSemaphorePermit,
}

impl Listener {
    async fn next(&mut self) -> Option<Event> {
        if self.over {
            return None;
        }
        if !std::mem::replace(&mut self.greeted, true) {
            return Some(Event::default().comment("listening"));
        }
        loop {
            tokio::select! {
                biased;
                () = ended(&mut self.ending) => return None,
                notice = self.notices.recv() => match notice {
                    Ok(notice) if notice.account == self.account => return Some(event(&notice)),
                    Ok(_) => {}
                    Err(RecvError::Lagged(missed)) => {
                        tracing::info!(account = self.account, missed, "event stream dropped: its reader is too slow");
                        self.over = true;
                        return Some(Event::default().event("dropped").data(missed.to_string()));
                    }
                    Err(RecvError::Closed) => return None,
                },
                _ = self.heartbeat.tick() => {
                    // A key that was revoked hears nothing more.
                    if let Some(key) = &self.key && !self.service.keyring.holds(key).await {
                        return None;
                    }
                    return Some(Event::default().comment("alive"));
                }
            }
        }
    }
}

/// Returns when the service ends.
async fn ended(ending: &mut watch::Receiver<bool>) {
    // An error says that it has ended already.
    let _ = ending.wait_for(|ending| *ending).await;
}

fn event(notice: &Notice) -> Event {
    let id = format!("{}-{}", notice.entry.period, notice.entry.number);
    let event = Event::default().event("entry").id(id);
    match serde_json::to_string(notice) {
        Ok(data) => event.data(data),
        Err(error) => event.comment(error.to_string()),
    }
}
