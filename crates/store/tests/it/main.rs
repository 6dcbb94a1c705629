//! The store from outside: what was written is there afterwards, also after a kill, and what was changed is found.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod remembers;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod tampering;
