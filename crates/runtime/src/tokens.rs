//! Tokens and login codes: what agents and people prove themselves with to the edges.
//!
//! A token is 256 random bits behind a name that says what it is. It is shown once, when it is made; what is kept is its
//! hash. An agent's token is for calls and for nothing else: whatever else it is asked for is refused here, and an edge that
//! meets such a token does not take its word either ([`may`]).

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;
use toolgate_contract::{Digest, Fault, LoginCode, Note, Person, Principal, Scope, Token};
use toolgate_guard::names;
use toolgate_store::{Store, state::State};

/// How long a login code opens the console.
pub const CODE_LIFE: Duration = Duration::from_secs(10 * 60);

/// What every token begins with, so that scanners for leaked secrets and people know it when they see it.
const PREFIX: &str = "tgt_";

/// A token that was just made, and the one time its secret is told.
#[derive(Debug)]
pub struct Minted {
    /// What is kept.
    pub token: Token,
    /// What its holder sends.
    pub secret: String,
}

/// A person whom a token proved, and what that token is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    /// Who.
    pub person: Person,
    /// What for.
    pub scopes: BTreeSet<Scope>,
    /// The token, by its name in lists. Not secret.
    pub token: String,
}

impl Proven {
    /// May they do what wants this scope?
    pub fn may(&self, wanted: Scope) -> bool {
        may(&Principal::Person(self.person.clone()), &self.scopes, wanted)
    }
}

/// What a token is to be.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Whom it proves.
    pub principal: Principal,
    /// What it is good for.
    pub scopes: BTreeSet<Scope>,
    /// How long it holds; none for until it is taken back.
    pub life: Option<Duration>,
}

/// Where tokens are kept, and where it is written down that they were.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "a store behind a trait has nothing to show")]
pub struct Tokens<'a> {
    /// Where they are kept.
    pub state: &'a dyn State,
    /// The record.
    pub store: &'a dyn Store,
}

/// May whoever is behind a token with these scopes do what wants this one?
///
/// An agent may call, whatever its token says. A person may not call: what they do is not an agent's doing.
pub fn may(principal: &Principal, scopes: &BTreeSet<Scope>, wanted: Scope) -> bool {
    match principal {
        Principal::Agent(_) => wanted == Scope::Call && scopes.contains(&Scope::Call),
        Principal::Person(_) => wanted != Scope::Call && scopes.contains(&wanted),
    }
}

impl Tokens<'_> {
    /// Makes a token.
    pub async fn add(&self, wanted: Wanted, by: &Person, now_ms: u64) -> Result<Minted, Fault> {
        let Wanted { principal, scopes, life } = wanted;
        if scopes.is_empty() {
            return Err(Fault::failed("no_scope", "a token without a scope is good for nothing", "Name a scope."));
        }
        if let Some(scope) = scopes.iter().find(|scope| !may(&principal, &scopes, **scope)) {
            let (who, theirs) = match principal {
                Principal::Agent(_) => ("an agent", "`call`"),
                Principal::Person(_) => ("a person", "`read`, `approve` and `admin`"),
            };
            let message = format!("{who} cannot have a token for `{scope}`");
            return Err(Fault::refused("scope_not_theirs", message, format!("Choose among {theirs}.")));
        }
        self.check_distinct(&principal).await?;
        let secret = secret()?;
        let token = Token {
            id: format!("tok_{}", &random()?[..12]),
            hash: Digest::of(secret.as_bytes()),
            principal,
            scopes,
            created_ms: now_ms,
            expires_ms: life.map(|life| later(now_ms, life)),
            last_used_ms: None,
            revoked_ms: None,
        };
        self.note("token_added", by, &token, now_ms).await?;
        self.state.add_token(token.clone()).await?;
        Ok(Minted { token, secret })
    }

    /// Gives a token another secret. The old one proves nothing from now on.
    pub async fn rotate(&self, id: &str, by: &Person, now_ms: u64) -> Result<Minted, Fault> {
        let kept = self.find(id).await?;
        let life = kept.expires_ms.map(|expires| Duration::from_millis(expires.saturating_sub(kept.created_ms)));
        let secret = secret()?;
        let expires_ms = life.map(|life| later(now_ms, life));
        self.note("token_rotated", by, &kept, now_ms).await?;
        let rotated = self.state.rotate_token(id.to_owned(), Digest::of(secret.as_bytes()), expires_ms, now_ms).await?;
        let token = rotated.ok_or_else(|| unknown(id))?;
        Ok(Minted { token, secret })
    }

    /// Takes a token back.
    pub async fn revoke(&self, id: &str, by: &Person, now_ms: u64) -> Result<Token, Fault> {
        let kept = self.find(id).await?;
        self.note("token_revoked", by, &kept, now_ms).await?;
        self.state.revoke_token(id.to_owned(), now_ms).await?.ok_or_else(|| unknown(id))
    }

    /// The token this secret belongs to, if it holds.
    pub async fn prove(&self, secret: &str, now_ms: u64) -> Result<Option<Token>, Fault> {
        // What cannot be a token is not worth a look into the state.
        if !secret.starts_with(PREFIX) || secret.len() != PREFIX.len() + 64 {
            return Ok(None);
        }
        Ok(self.state.token_by_hash(Digest::of(secret.as_bytes()), now_ms).await?)
    }

    /// A code that lets a person into the console once.
    pub async fn login_code(&self, person: &Person, now_ms: u64) -> Result<String, Fault> {
        let code = random()?;
        let hash = Digest::of(code.as_bytes());
        let kept = LoginCode { hash, person: person.clone(), expires_ms: later(now_ms, CODE_LIFE) };
        self.state.add_login_code(kept, now_ms).await?;
        Ok(code)
    }

    /// Who comes in with this code. Of all who try, one does.
    pub async fn enter(&self, code: &str, now_ms: u64) -> Result<Option<Person>, Fault> {
        let Some(person) = self.state.use_login_code(Digest::of(code.as_bytes()), now_ms).await? else {
            return Ok(None);
        };
        let by = Some(Principal::Person(person.clone()));
        let note = Note { at_ms: now_ms, kind: "login", by, subject: person.to_string(), detail: json!({}) };
        self.store.note(note).await?;
        Ok(Some(person))
    }

    /// Where two people are needed, two spellings of one name must not do: nobody's name looks like another's.
    async fn check_distinct(&self, principal: &Principal) -> Result<(), Fault> {
        let Principal::Person(person) = principal else { return Ok(()) };
        let name = person.to_string();
        let known = self.state.tokens().await?.into_iter().filter_map(|token| match token.principal {
            Principal::Person(known) => Some(known.to_string()),
            Principal::Agent(_) => None,
        });
        let alike = |known: &String| *known != name && names::collide(known.trim(), name.trim()).is_some();
        match known.into_iter().find(alike) {
            None => Ok(()),
            Some(known) => {
                let message = format!("`{name}` looks like `{known}`, who has a token");
                Err(Fault::refused("name_taken", message, "Write the name as it is known, or choose another."))
            }
        }
    }

    async fn find(&self, id: &str) -> Result<Token, Fault> {
        let tokens = self.state.tokens().await?;
        tokens.into_iter().find(|token| token.id == id && token.revoked_ms.is_none()).ok_or_else(|| unknown(id))
    }

    /// It is written down first: a token nobody knows of must not exist.
    async fn note(&self, kind: &'static str, by: &Person, token: &Token, at_ms: u64) -> Result<(), Fault> {
        let detail = json!({ "principal": token.principal, "scopes": token.scopes, "expires_ms": token.expires_ms });
        let by = Some(Principal::Person(by.clone()));
        Ok(self.store.note(Note { at_ms, kind, by, subject: token.id.clone(), detail }).await?)
    }
}

fn unknown(id: &str) -> Fault {
    let id: String = id.chars().take(80).flat_map(char::escape_default).collect();
    Fault::failed(
        "unknown_token",
        format!("there is no token `{id}` that holds"),
        "List them with `toolgate tokens list`.",
    )
}

fn secret() -> Result<String, Fault> {
    Ok(format!("{PREFIX}{}", random()?))
}

/// 256 bits of chance as hex digits.
fn random() -> Result<String, Fault> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Fault::failed("no_chance", format!("the kernel gave no random bytes: {error}"), "Try again.").retryable()
    })?;
    Ok(Digest(bytes).hex())
}

fn later(now_ms: u64, by: Duration) -> u64 {
    now_ms.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_contract::AgentName;

    #[test]
    fn agents_call_and_people_do_the_rest() {
        let all: BTreeSet<Scope> = Scope::ALL.iter().copied().collect();
        let check = |principal: &Principal, expected: &[Scope]| {
            let allowed: Vec<_> = Scope::ALL.iter().copied().filter(|scope| may(principal, &all, *scope)).collect();
            assert_eq!(allowed, expected, "{principal}");
            let none = Scope::ALL.iter().any(|scope| may(principal, &BTreeSet::new(), *scope));
            assert!(!none, "{principal} may nothing without a scope");
        };
        check(&Principal::Agent(AgentName::from("coder")), &[Scope::Call]);
        check(&Principal::Person(Person::from("ann")), &[Scope::Read, Scope::Approve, Scope::Admin]);
    }
}
