//! The keyring of the desktop: the Secret Service on the session bus.
//!
//! Secrets are stored under the attributes `service` and `username`, as most programs do. Only what is unlocked already,
//! or unlocks without a question, is read: a runtime in the background has nobody to ask.

use rustix::process::geteuid;
use toolgate_contract::Fault;

use super::{
    Secret,
    dbus::{Body, Bus, Callee, NoAnswer},
};

const DESTINATION: &str = "org.freedesktop.secrets";
const SERVICE: Callee<'_> =
    Callee { destination: DESTINATION, path: "/org/freedesktop/secrets", interface: "org.freedesktop.Secret.Service" };

/// The secret of a service and a name. `session_bus` is the bus's address, where it is not at its usual place.
pub(super) fn get(session_bus: Option<&str>, service: &str, name: &str) -> Result<Secret, Fault> {
    let usual = || format!("unix:path=/run/user/{}/bus", geteuid().as_raw());
    let address = session_bus.map_or_else(usual, str::to_owned);
    let found = Bus::connect(&address).map_err(NoAnswer::from).and_then(|mut bus| look_up(&mut bus, service, name));
    match found {
        Ok(Ok(secret)) => Ok(secret),
        Ok(Err(fault)) => Err(fault),
        Err(NoAnswer::Refused(word)) => Err(unavailable(&format!("it answered `{word}`"))),
        Err(NoAnswer::Failed(error)) => Err(unavailable(&error.to_string())),
    }
}

fn look_up(bus: &mut Bus, service: &str, name: &str) -> Result<Result<Secret, Fault>, NoAnswer> {
    // The bus is a socket of this user's, and whoever can read along could ask as well: nothing is gained by encrypting.
    let mut plain = Body::default();
    plain.text("plain");
    plain.variant("");
    let mut opened = bus.call(SERVICE, "OpenSession", "sv", &plain)?;
    opened.variant()?;
    let session = opened.text()?;

    let mut wanted = Body::default();
    wanted.pairs(&[("service", service), ("username", name)]);
    let mut found = bus.call(SERVICE, "SearchItems", "a{ss}", &wanted)?;
    let (mut items, locked) = (found.texts()?, found.texts()?);
    if items.is_empty() && !locked.is_empty() {
        let mut list = Body::default();
        list.texts(&locked);
        items = bus.call(SERVICE, "Unlock", "ao", &list)?.texts()?;
        if items.is_empty() {
            return Ok(Err(Fault::failed(
                "keyring_locked",
                format!("the keyring with `keyring:{service}/{name}` is locked"),
                "Unlock it, by logging in to the desktop for instance, or keep the secret in the vault.",
            )));
        }
    }
    let [item] = items.as_slice() else {
        return Ok(Err(wrong_count(items.len(), service, name)));
    };

    let mut asked = Body::default();
    asked.text(&session);
    let callee = Callee { destination: DESTINATION, path: item, interface: "org.freedesktop.Secret.Item" };
    let mut answer = bus.call(callee, "GetSecret", "o", &asked)?;
    answer.structure()?;
    answer.text()?;
    answer.bytes()?;
    let value = answer.bytes()?;
    Ok(Secret::admit(&format!("`keyring:{service}/{name}`"), &value))
}

fn wrong_count(count: usize, service: &str, name: &str) -> Fault {
    let how = format!("secret-tool store --label=Toolgate service '{service}' username '{name}'");
    match count {
        0 => Fault::failed(
            "secret_missing",
            format!("the keyring has nothing for service `{service}` and user `{name}`"),
            format!("Store it with `{how}`."),
        ),
        _ => Fault::failed(
            "secret_ambiguous",
            format!("the keyring has {count} entries for service `{service}` and user `{name}`"),
            "Remove all but one of them.",
        ),
    }
}

fn unavailable(why: &str) -> Fault {
    Fault::failed(
        "keyring_unavailable",
        format!("the keyring of the desktop cannot be asked: {why}"),
        "Start Toolgate inside a desktop session, or keep the secret in the vault with `toolgate secrets set`.",
    )
}
