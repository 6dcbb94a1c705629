//! The kernel, one safe function per call: all unsafe code of the project is in this file.
//!
//! What rustix offers is not repeated here. What is here either has no safe wrapper (`clone`, `mount_setattr`,
//! `signalfd`, Landlock's rule set on a thread) or must be made of nothing but system calls because it runs between
//! `clone` and `execve` in memory it shares with its parent ([`launch`]).

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
pub(super) enum Forked {
    /// The new process.
    Child,
    /// The old one, with the new one's pid and a handle on it.
    Parent(i32, OwnedFd),
}

/// A new process in new namespaces, a copy of this one. Only for processes with one thread: in the copy of a process
/// with several, whatever the others held (the allocator's lock) would stay held.
pub(super) fn fork_into(namespaces: c_int) -> io::Result<Forked> {
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
pub(super) fn exit_now(code: i32) -> ! {
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
pub(super) fn ignore_children() -> io::Result<()> {
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

/// What [`launch`] starts.
pub(super) struct Launch<'a> {
    pub(super) program: &'a CStr,
    pub(super) argv: &'a [CString],
    pub(super) env: &'a [CString],
    pub(super) cwd: BorrowedFd<'a>,
    /// Files through which it joins its cgroups. It alone does: whoever watches it must outlive it.
    pub(super) cgroups: &'a [OwnedFd],
    /// Standard input, output and error.
    pub(super) stdio: [BorrowedFd<'a>; 3],
    /// Standard input is a terminal, and becomes the one that controls the program.
    pub(super) terminal: bool,
    pub(super) landlock: BorrowedFd<'a>,
    /// A file that could be written if it were not for Landlock: opening it must fail.
    pub(super) canary: &'a CStr,
}

/// What the new process found about itself right before it became the program.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Found {
    /// The step that failed, and the kernel's word for it; 0 when none did.
    pub(super) failed: u32,
    pub(super) errno: i32,
    pub(super) uids: [u32; 3],
    pub(super) gids: [u32; 3],
    /// Effective, permitted and inheritable.
    pub(super) capabilities: [u64; 3],
    pub(super) no_new_privs: i32,
    pub(super) seccomp: i32,
    /// What the kernel said when the canary was opened; 0 when it could be.
    pub(super) canary: i32,
}

impl Found {
    /// Nobody in particular, no capabilities, no way to any, and both filters up.
    fn is_walled(&self) -> bool {
        !self.uids.contains(&0)
            && !self.gids.contains(&0)
            && self.capabilities == [0; 3]
            && self.no_new_privs == 1
            && self.seccomp == 2
            && self.canary == libc::EACCES
    }
}

pub(super) const ENTER_DIRECTORY: &str = "enter the directory";
pub(super) const START_PROGRAM: &str = "start the program";

/// The steps of [`launch`], in their order.
pub(super) const LAUNCH_STEPS: [&str; 9] = [
    "start",
    "join a cgroup",
    "stand apart",
    "take the terminal",
    ENTER_DIRECTORY,
    "connect the streams",
    "put up Landlock",
    "find every wall standing",
    START_PROGRAM,
];

/// Starts a program behind its last walls, and says what its process found about itself. The calling process must
/// have one thread.
pub(super) fn launch(launch: &Launch<'_>) -> io::Result<(i32, Found)> {
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv, env) = (pointers(launch.argv), pointers(launch.env));
    let mut found = Found::default();
    let mut errand =
        Errand { launch, argv: argv.as_ptr(), env: env.as_ptr(), no_signals: set_of(&[]), found: &raw mut found };
    // 32 KiB: the errand needs some hundred bytes, and the C library's wrappers less than a page.
    let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(2048);
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end.cast::<c_void>();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child runs `errand` on a stack of its own, which lives until the call returns; CLONE_VFORK holds
    // this thread until the child has executed the program or ended, so everything the errand points to outlives it.
    // The child makes system calls only, and `Found` is written by it alone before this thread goes on.
    let pid = unsafe { libc::clone(run_errand, top, flags, (&raw mut errand).cast()) };
    check(pid.into())?;
    Ok((pid, found))
}

struct Errand<'a> {
    launch: &'a Launch<'a>,
    argv: *const *const c_char,
    env: *const *const c_char,
    no_signals: libc::sigset_t,
    found: *mut Found,
}

extern "C" fn run_errand(errand: *mut c_void) -> c_int {
    // SAFETY: `launch` passes a valid errand and waits while this runs.
    let (errand, found) = unsafe {
        let errand = &*errand.cast::<Errand<'_>>();
        (errand, &mut *errand.found)
    };
    found.failed = 0;
    if let Err((step, errno)) = errand.run(found) {
        found.failed = step;
        found.errno = errno;
    }
    // SAFETY: takes an integer and does not return. 127 is never seen: the parent knows of the failure.
    unsafe { libc::_exit(127) }
}

impl Errand<'_> {
    /// Only system calls from here on: this runs in the parent's memory, and an allocation could meet a lock.
    /// Returns only when a step failed.
    fn run(&self, found: &mut Found) -> Result<(), (u32, i32)> {
        let at = |step: u32| move |errno: i32| (step, errno);
        for way in self.launch.cgroups {
            // SAFETY: an open descriptor and one byte.
            let written = unsafe { libc::write(way.as_raw_fd(), c"0".as_ptr().cast(), 1) };
            ok(written as c_long).map_err(at(1))?;
        }
        // A terminal wants a session of its own; without one the init's will do, which has none either.
        // SAFETY: take nothing, and two numbers.
        let apart = unsafe { if self.launch.terminal { libc::setsid() } else { libc::setpgid(0, 0) } };
        ok(apart.into()).map_err(at(2))?;
        // SAFETY: an initialised set; the mask belongs to this process, the set to its parent, which waits.
        ok(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.no_signals, ptr::null_mut()) }.into())
            .map_err(at(2))?;
        // A program whose supervisor is killed has nobody left to end it.
        // SAFETY: plain integers.
        ok(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as c_ulong) }.into()).map_err(at(2))?;
        if self.launch.terminal {
            let zero = 0;
            // SAFETY: the descriptor is open; the last argument is an integer for this request.
            ok(unsafe { libc::ioctl(self.launch.stdio[0].as_raw_fd(), libc::TIOCSCTTY, zero) }.into())
                .map_err(at(3))?;
        }
        // SAFETY: an open descriptor.
        ok(unsafe { libc::fchdir(self.launch.cwd.as_raw_fd()) }.into()).map_err(at(4))?;
        self.connect().map_err(at(5))?;
        // SAFETY: a descriptor and a flag word.
        ok(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, 3, 0u32) }).map_err(at(6))?;
        // SAFETY: the descriptors from 3 on are this process's own copies (no CLONE_FILES); nothing of Rust's is used
        // after this that would need one.
        ok(unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) }).map_err(at(6))?;
        self.look(found);
        // What was put up is not believed but looked at, before there is anything to hold.
        if !found.is_walled() {
            return Err((7, libc::EPERM));
        }
        // SAFETY: program, arguments and environment are zero-terminated, the lists end with a null.
        unsafe { libc::execve(self.launch.program.as_ptr(), self.argv, self.env) };
        Err((8, errno()))
    }

    /// Puts the streams at 0, 1 and 2 and the rule set at 3.
    fn connect(&self) -> Result<(), i32> {
        let wanted = [self.launch.stdio[0], self.launch.stdio[1], self.launch.stdio[2], self.launch.landlock];
        // First out of the way, so that none is overwritten before it is moved.
        let mut high = [0; 4];
        for (high, fd) in high.iter_mut().zip(wanted) {
            // SAFETY: an open descriptor and a lower bound.
            *high = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 10) };
            ok((*high).into())?;
        }
        for (target, high) in (0..).zip(high) {
            // SAFETY: two descriptors; the target is closed first if it is open.
            ok(unsafe { libc::dup2(high, target) }.into())?;
        }
        Ok(())
    }

    /// Reads back what stands around this process, by asking the kernel, not by remembering.
    fn look(&self, found: &mut Found) {
        let [u0, u1, u2] = &mut found.uids;
        let [g0, g1, g2] = &mut found.gids;
        // SAFETY: six pointers to integers the calls fill.
        unsafe {
            libc::getresuid(u0, u1, u2);
            libc::getresgid(g0, g1, g2);
        }
        // Until the kernel says otherwise, all of them.
        found.capabilities = [u64::MAX; 3];
        let mut header = [0x2008_0522_u32, 0];
        let mut words = [[u32::MAX; 3]; 2];
        // SAFETY: version 3 of the call reads a header of two words and fills two triples.
        if unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), words.as_mut_ptr()) } == 0 {
            let [low, high] = words;
            for (set, (low, high)) in found.capabilities.iter_mut().zip(low.into_iter().zip(high)) {
                *set = u64::from(low) | (u64::from(high) << 32);
            }
        }
        // SAFETY: plain integers.
        unsafe {
            found.no_new_privs =
                libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong);
            found.seccomp = libc::prctl(libc::PR_GET_SECCOMP);
        }
        // SAFETY: the path ends with a zero byte; a descriptor that comes back is closed again.
        found.canary = unsafe {
            let fd = libc::open(self.launch.canary.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if fd >= 0 {
                libc::close(fd);
                0
            } else {
                errno()
            }
        };
    }
}

fn ok(returned: c_long) -> Result<(), i32> {
    if returned == -1 { Err(errno()) } else { Ok(()) }
}

fn errno() -> i32 {
    // SAFETY: the C library gives every thread a place for it.
    unsafe { *libc::__errno_location() }
}

fn check(returned: c_long) -> io::Result<()> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
