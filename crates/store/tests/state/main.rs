//! The state from outside: what is decided once is decided once, whoever races, dies or runs out of disk.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod file;
#[cfg(test)]
mod races;
#[cfg(test)]
mod sqlite;
#[cfg(test)]
mod things;
