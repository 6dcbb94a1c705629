//! Who sits at the terminal.

use toolgate_contract::{Digest, Fault, Person, Principal, Scope};
use toolgate_runtime::{store::state::State, tokens};

use crate::{problem::Problem, setup};

/// The person who acts: whoever a token in the environment proves, else the user this process runs as. Nobody is taken
/// at their word.
pub(crate) async fn acting(state: &dyn State, wanted: Scope) -> Result<Person, Problem> {
    let Some(secret) = setup::token() else { return Ok(setup::person()) };
    let hash = Digest::of(secret.as_encoded_bytes());
    let unknown = || Fault::refused("unknown_token", "the token in TOOLGATE_TOKEN proves nothing", "Make a new one.");
    let token = state.token_by_hash(hash, setup::now_ms()).await?.ok_or_else(unknown)?;
    if !tokens::may(&token.principal, &token.scopes, wanted) {
        let message = format!("the token in TOOLGATE_TOKEN is not for `{wanted}`");
        return Err(Fault::refused("scope_missing", message, "Use one that is, of a person.").into());
    }
    match token.principal {
        Principal::Person(person) => Ok(person),
        Principal::Agent(_) => Err(unknown().into()),
    }
}
