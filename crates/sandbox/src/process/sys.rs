//! The kernel, one safe function per call: all unsafe code of the project is in this file.
//!
//! What rustix offers is not repeated here. What is here either has no safe wrapper (`clone`, `mount_setattr`,
//! `signalfd`, Landlock's rule set on a thread) or is about two processes in one memory ([`stand_aside`]).

#![expect(unsafe_code, reason = "the one place where the kernel is called without a safe wrapper")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    io,
    mem::{self, MaybeUninit},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

use libc::{c_long, c_ulong};

/// The name under which this program starts itself as a zygote.
pub(super) const ZYGOTE_NAME: &CStr = c"toolgate-zygote";

/// Runs before `main` in every program that links this crate. In all but one case it returns at once: when the
/// program was started under [`ZYGOTE_NAME`] it becomes the zygote and never reaches `main`. That way a program that
/// embeds the library, and a test, need no hook of their own.
extern "C" fn enter(argc: c_int, argv: *const *const c_char, _env: *const *const c_char) {
    if argc != 1 || argv.is_null() {
        return;
    }
    // SAFETY: the loader passes `argc` valid pointers to strings that end with a zero byte, here at least one.
    let name = unsafe { CStr::from_ptr(*argv) };
    if name == ZYGOTE_NAME {
        super::zygote::run();
    }
}

#[used]
// SAFETY: the loader calls every pointer of this section with these arguments before `main`, in one thread; `enter`
// has that signature. The standard library needs no start-up for what the zygote uses (memory, files, strings).
#[unsafe(link_section = ".init_array")]
static ENTER: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = enter;

/// Who came back from [`fork_into`].
pub(crate) enum Forked {
    /// The new process.
    Child,
    /// The old one, with the new one's pid and a handle on it.
    Parent(i32, OwnedFd),
}

/// A new process in new namespaces, a copy of this one. Only for processes with one thread: in the copy of a process
/// with several, whatever the others held (the allocator's lock) would stay held.
pub(crate) fn fork_into(namespaces: c_int) -> io::Result<Forked> {
    let mut pidfd: c_int = -1;
    let flags = namespaces | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: without CLONE_VM and without a stack the call is `fork` with namespaces: the child goes on with a copy
    // of this memory. CLONE_PIDFD stores an int through the third argument, which points to one.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags as c_ulong, 0usize, &raw mut pidfd, 0usize, 0usize) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        // SAFETY: the kernel just made this descriptor for us, and nobody else knows it.
        pid => Ok(Forked::Parent(pid as i32, unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// Ends this process at once: no destructors, no flushing of buffers copied from the parent.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

/// Every signal back to its default, none blocked: what a program expects to start with.
pub(super) fn reset_signals() -> io::Result<()> {
    for signal in 1..=64 {
        // SAFETY: SIG_DFL is a disposition, not a function; a number that cannot be set is answered with an error,
        // which is fine for the two that always have their default.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    mask(libc::SIG_SETMASK, &[])
}

fn mask(how: c_int, signals: &[c_int]) -> io::Result<()> {
    let set = set_of(signals);
    // SAFETY: `set` is an initialised signal set; a null old set is allowed.
    check(unsafe { libc::sigprocmask(how, &raw const set, ptr::null_mut()) }.into())
}

fn set_of(signals: &[c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set it is given; `sigaddset` changes an initialised one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Children that end can be waited for again.
pub(super) fn notice_children() -> io::Result<()> {
    // SAFETY: SIG_DFL is a disposition, not a function.
    match unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Children that end are gone at once; nobody waits for them.
pub(crate) fn ignore_children() -> io::Result<()> {
    // SAFETY: SIG_IGN is a disposition, not a function.
    match unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Blocks SIGCHLD and gives a descriptor that is readable when a child has changed.
pub(super) fn child_signals() -> io::Result<OwnedFd> {
    mask(libc::SIG_BLOCK, &[libc::SIGCHLD])?;
    let set = set_of(&[libc::SIGCHLD]);
    // SAFETY: -1 asks for a new descriptor; `set` is initialised.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    check(fd.into())?;
    // SAFETY: the kernel just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends a signal to every process this one may signal, except itself. In a pid namespace of its own that is
/// everything else in it, in one step that no fork can run ahead of.
pub(super) fn signal_all(signal: c_int) -> io::Result<()> {
    // SAFETY: takes integers.
    check(unsafe { libc::kill(-1, signal) }.into())
}

/// Processor time and largest resident size of all children that were waited for.
pub(super) fn usage_of_children() -> io::Result<ChildUsage> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a `rusage`, which the call fills.
    check(unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) }.into())?;
    // SAFETY: all-zero bytes are a valid `rusage`, and the call has filled it.
    let usage = unsafe { usage.assume_init() };
    let millis = |time: libc::timeval| (time.tv_sec as u64) * 1_000 + (time.tv_usec as u64) / 1_000;
    Ok(ChildUsage {
        cpu_ms: millis(usage.ru_utime) + millis(usage.ru_stime),
        // In units of 512 bytes.
        written: (usage.ru_oublock as u64) * 512,
    })
}

/// What children used that were waited for.
pub(super) struct ChildUsage {
    pub(super) cpu_ms: u64,
    pub(super) written: u64,
}

/// Sets attributes on a mount and everything below it.
pub(super) fn set_mount_attributes(mount: BorrowedFd<'_>, set: u64, recursive: bool) -> io::Result<()> {
    mount_setattr(mount, recursive, &MountAttr { attr_set: set, ..MountAttr::default() })
}

/// Shows the files of a mount under other owners, as the user namespace `ids` maps them.
pub(super) fn map_mount_ids(mount: BorrowedFd<'_>, ids: BorrowedFd<'_>) -> io::Result<()> {
    let userns_fd = u64::from(ids.as_raw_fd().unsigned_abs());
    let attr = MountAttr { attr_set: libc::MOUNT_ATTR_IDMAP, userns_fd, ..MountAttr::default() };
    mount_setattr(mount, true, &attr)
}

#[repr(C)]
#[derive(Default)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

fn mount_setattr(mount: BorrowedFd<'_>, recursive: bool, attr: &MountAttr) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is an empty string, the attributes are a `mount_attr` of the size that is passed with them.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            ptr::from_ref(attr),
            mem::size_of::<MountAttr>(),
        )
    })
}

/// The Landlock version of this kernel; an error where there is none.
pub(super) fn landlock_abi() -> io::Result<u32> {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the call takes no attributes and returns a number.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<c_void>(), 0usize, VERSION) };
    check(abi)?;
    Ok(abi as u32)
}

/// From here on this process and what it starts makes only the system calls the filter lets through.
pub(super) fn filter_calls(filter: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    // SAFETY: length and pointer belong together; the kernel copies the filter and changes nothing.
    check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0u32, &raw const program) })
}

/// From here on this process and what it starts reaches only the files the rule set grants.
pub(super) fn restrict(rules: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: an open descriptor and a flag word.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0u32) })
}

/// Real, effective and saved: the user's ids, then the group's.
pub(super) fn ids() -> ([u32; 3], [u32; 3]) {
    let ([mut u0, mut u1, mut u2], [mut g0, mut g1, mut g2]) = ([0; 3], [0; 3]);
    // SAFETY: six pointers to integers the calls fill. They fail for bad pointers only; then root's id is told.
    unsafe {
        libc::getresuid(&raw mut u0, &raw mut u1, &raw mut u2);
        libc::getresgid(&raw mut g0, &raw mut g1, &raw mut g2);
    }
    ([u0, u1, u2], [g0, g1, g2])
}

/// The process that made the other end of this connection, as a number in this pid namespace; 0 where it has none.
pub(crate) fn peer(socket: BorrowedFd<'_>) -> io::Result<i32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes through the first pointer, which is that of a `ucred` of that
    // size, any bytes of which are valid, and the length through the second.
    let returned = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    check(returned.into())?;
    Ok(peer.pid)
}

/// No signal is blocked any more.
pub(super) fn unblock_signals() -> io::Result<()> {
    mask(libc::SIG_SETMASK, &[])
}

/// From here on this process's table of descriptors is its own.
pub(super) fn own_descriptors() -> io::Result<()> {
    // SAFETY: three integers. No descriptor has this number, so none is closed.
    check(unsafe { libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, libc::CLOSE_RANGE_UNSHARE) })
}

/// Closes every descriptor from this one on. For a process that is about to become a program.
pub(super) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: three integers. Whoever still owns one of them here never uses it again: what follows is `execve`, or the
    // end of this process without destructors ([`stand_aside`]).
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0u32) })
}

/// A program, as `execve` takes it.
pub(super) struct Program {
    pub(super) path: CString,
    pub(super) argv: Vec<CString>,
    pub(super) env: Vec<CString>,
}

/// What came of [`stand_aside`].
pub(super) struct Aside<T> {
    /// The other process.
    pub(super) pid: i32,
    /// What it left here.
    pub(super) left: T,
    pub(super) became: Became,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Became {
    /// It has ended: there was no program to become.
    Nothing,
    Program,
    /// It has ended: the kernel does not start this program.
    Refused(c_int),
}

/// Stands still while another process does `errand` in this one's memory and with its descriptors, and goes on when
/// that process has become the program the errand gave it, or has ended. Nothing is copied, however large this process
/// is. The calling process must have one thread.
pub(super) fn stand_aside<T, F: FnOnce() -> (T, Option<Program>)>(errand: F) -> io::Result<Aside<T>> {
    let mut shared = Shared { errand: Some(errand), left: None, became: Became::Nothing };
    // 256 KiB, of which an errand uses a few pages; what is not used takes no memory.
    let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(16 * 1024);
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end.cast::<c_void>();
    let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child runs on a stack of its own, which lives until the call returns, and CLONE_VFORK holds this
    // thread, the only one, until the child has executed a program or ended. So at any moment one of the two is at work
    // in this memory, as if the errand were called here: it may allocate, and what it points to outlives it. An errand
    // that was cut short (a signal, a panic) may have left anything half done; then `left` is empty, and this process
    // ends below without touching more.
    let pid = unsafe { libc::clone(run_errand::<T, F>, top, flags, (&raw mut shared).cast()) };
    check(pid.into())?;
    match shared.left {
        Some(left) => Ok(Aside { pid, left, became: shared.became }),
        None => exit_now(1),
    }
}

struct Shared<T, F> {
    errand: Option<F>,
    left: Option<T>,
    became: Became,
}

extern "C" fn run_errand<T, F: FnOnce() -> (T, Option<Program>)>(shared: *mut c_void) -> c_int {
    // SAFETY: `stand_aside` passes a valid pointer to this type, and does not touch it while this runs.
    let shared = unsafe { &mut *shared.cast::<Shared<T, F>>() };
    if let Some(errand) = shared.errand.take() {
        let (left, program) = errand();
        if let Some(Program { path, argv, env }) = program {
            let (argv, env) = (pointers(&argv), pointers(&env));
            shared.became = Became::Program;
            shared.left = Some(left);
            // SAFETY: program, arguments and environment are zero-terminated, the lists end with a null.
            unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
            shared.became = Became::Refused(errno());
        } else {
            shared.left = Some(left);
        }
    }
    exit_now(0)
}

/// A list as the kernel takes it, for as long as the strings are there.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

fn errno() -> i32 {
    // SAFETY: the C library gives every thread a place for it.
    unsafe { *libc::__errno_location() }
}

fn check(returned: c_long) -> io::Result<()> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
