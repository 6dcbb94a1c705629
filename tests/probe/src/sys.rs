//! How attacks reach the kernel: by number, past every library.

use std::ffi::{CString, c_long};

/// What the kernel said: a value, or the number of its complaint.
pub(crate) type Said = Result<usize, i32>;

/// One system call. Not marked `unsafe`, though it is: every line of every attack would be an unsafe block otherwise,
/// and the word would say nothing. What is passed must be what the kernel expects, or harmlessly wrong.
pub(crate) fn call<const N: usize>(number: c_long, args: [usize; N]) -> Said {
    let mut all = [0usize; 6];
    all[..N].copy_from_slice(&args);
    let [a, b, c, d, e, f] = all;
    // SAFETY: the caller passes pointers to live memory of the length the call wants, or pointers the kernel refuses.
    said(unsafe { libc::syscall(number, a, b, c, d, e, f) })
}

/// The answer of a call that went through the library.
pub(crate) fn said(answer: c_long) -> Said {
    match answer {
        -1 => Err(errno()),
        value => Ok(value as usize),
    }
}

/// The last complaint.
pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The kernel's complaint in an error of the standard library.
pub(crate) fn number(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

/// Text as the kernel takes it. Nothing the tests pass holds a zero byte; what does is cut there.
pub(crate) fn text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

/// The address of something, as an argument.
pub(crate) fn at<T: ?Sized>(thing: &T) -> usize {
    std::ptr::from_ref(thing).cast::<u8>() as usize
}

/// The address of something the kernel writes to, as an argument.
pub(crate) fn into<T: ?Sized>(thing: &mut T) -> usize {
    std::ptr::from_mut(thing).cast::<u8>() as usize
}

/// A negative number, as an argument.
pub(crate) const fn minus(value: isize) -> usize {
    value.wrapping_neg() as usize
}

/// A pointer no process owns, for calls that must not find what they were pointed at.
pub(crate) const NOWHERE: usize = 8;
