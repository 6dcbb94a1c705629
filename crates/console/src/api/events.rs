//! Events for programs and for our own pages.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use toolgate_contract::Scope;

use super::Answer;
use crate::{Shared, caller::identify, problem::Problem, site::Site};

pub(super) async fn listen(
    State(shared): State<Shared>,
    Extension(site): Extension<Site>,
    headers: HeaderMap,
) -> Answer {
    let slot = Arc::clone(&shared.listeners).try_acquire_owned().map_err(|_| {
        let message = "as many listen to events as can at once";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_listeners", message, "Close one, then try again.")
    })?;
    let looking = shared.clone();
    let still_may = move || {
        let (shared, site, headers) = (looking.clone(), site.clone(), headers.clone());
        async move { identify(&shared, &site, &headers).await.is_ok_and(|caller| caller.may(Scope::Read)) }
    };
    Ok(shared.events.answer(slot, shared.stop.clone(), still_may))
}
