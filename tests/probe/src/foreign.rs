//! The kernel's other doors: 32-bit calls by `int 0x80`, and the x32 numbers. `foreign ADDRESS:PORT` also tries to
//! connect through them.

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::foreign;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn foreign(_: &[String], _: &mut crate::tries::Tries) {}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;

    use libc::*;

    use crate::{
        connect::ipv4,
        sys::{NOWHERE, Said, call},
        tries::Tries,
    };

    /// Set in the number of every x32 call.
    const X32: i64 = 0x4000_0000;

    /// Names, numbers as i386 counts them, and harmless arguments.
    const OLD: [(&str, u32, [u32; 4]); 14] = [
        ("getpid", 20, [0; 4]),
        ("open", 5, [NOWHERE as u32, 0, 0, 0]),
        ("ptrace", 26, [0; 4]),
        ("mount", 21, [NOWHERE as u32; 4]),
        ("socketcall", 102, [1, NOWHERE as u32, 0, 0]),
        ("socket inet", 359, [2, 1, 0, 0]),
        ("socket packet", 359, [17, 3, 0, 0]),
        ("unshare user", 310, [0x1000_0000, 0, 0, 0]),
        ("setns", 346, [u32::MAX, 0, 0, 0]),
        ("keyctl", 288, [0, 3u32.wrapping_neg(), 0, 0]),
        ("bpf", 357, [9999, NOWHERE as u32, 0, 0]),
        ("perf_event_open", 336, [NOWHERE as u32, 0, u32::MAX, u32::MAX]),
        ("userfaultfd", 374, [1, 0, 0, 0]),
        ("io_uring_setup", 425, [1, NOWHERE as u32, 0, 0]),
    ];

    const NEW: [(&str, i64, [usize; 3]); 9] = [
        ("getpid", SYS_getpid, [0; 3]),
        ("socket inet", SYS_socket, [2, 1, 0]),
        ("ptrace", 521, [0; 3]),
        ("mount", SYS_mount, [NOWHERE; 3]),
        ("unshare user", SYS_unshare, [0x1000_0000, 0, 0]),
        ("keyctl", SYS_keyctl, [0, usize::MAX - 2, 0]),
        ("bpf", SYS_bpf, [9999, NOWHERE, 0]),
        ("io_uring_setup", SYS_io_uring_setup, [1, NOWHERE, 0]),
        ("setns", SYS_setns, [usize::MAX, 0, 0]),
    ];

    /// Knocks at both.
    pub(crate) fn foreign(args: &[String], tries: &mut Tries) {
        for (name, number, args) in OLD {
            tries.in_child(format!("i386 {name}"), || int80(number, args));
        }
        for (name, number, args) in NEW {
            tries.in_child(format!("x32 {name}"), || call(X32 | number, args));
        }
        let Some(target) = args.first().and_then(|word| word.parse().ok()).and_then(ipv4) else { return };
        tries.in_child("i386 connect", || {
            let socket = int80(359, [2, 1, 0, 0])? as u32;
            // The address must lie in the low 4 GiB for a 32-bit pointer to reach it.
            let low = call(SYS_mmap, [0, 4096, 3, (MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT) as usize, usize::MAX, 0])?;
            // SAFETY: the page is fresh, writable and larger than an address.
            unsafe { (low as *mut sockaddr_in).write(target) };
            int80(362, [socket, low as u32, size_of::<sockaddr_in>() as u32, 0])
        });
        tries.in_child("x32 connect", || {
            let socket = call(X32 | SYS_socket, [2, 1, 0])?;
            call(X32 | SYS_connect, [socket, crate::sys::at(&target), size_of_val(&target)])
        });
    }

    /// One call through the 32-bit door.
    fn int80(number: u32, [a, b, c, d]: [u32; 4]) -> Said {
        let answer: u32;
        // SAFETY: the registers are those of the 32-bit convention; `rbx` belongs to the compiler, so it is swapped
        // in and out; every pointer passed is wrong on purpose or low.
        unsafe {
            asm!(
                "xchg {first:r}, rbx",
                "int 0x80",
                "xchg {first:r}, rbx",
                first = inout(reg) u64::from(a) => _,
                inout("eax") number => answer,
                in("ecx") b,
                in("edx") c,
                in("esi") d,
                in("edi") 0,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            );
        }
        match answer as i32 {
            errno @ -4095..=-1 => Err(-errno),
            value => Ok(value as usize),
        }
    }
}
