//! Surviving a parser that panics, without a word about it on standard error.
//!
//! The parsers are other people's code and the text is hostile: a panic there is an ordinary way of not having read it.
//! The message that the standard library prints for every panic would only be noise, and noise that an agent can make
//! at will.

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

thread_local! {
    static SURVIVING: Cell<bool> = const { Cell::new(false) };
}

/// What `work` returns; none if it panicked. Whatever it was changing is left half changed.
pub(super) fn survive<T>(work: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    // There is one hook for the whole program. Ours stays silent while the flag of its thread is up, and is the one
    // that was there before for every other panic.
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !SURVIVING.get() {
                before(info);
            }
        }));
    });
    // Scripts stand in scripts, so this may be inside another.
    let outer = SURVIVING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    SURVIVING.set(outer);
    result.ok()
}
