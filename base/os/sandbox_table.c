#include "base/os/sandbox_table.h"

#include <linux/if_tun.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/core/util.h"

/* Current Debian armhf uses 64-bit time calls, older releases use both kinds. */
const char sandbox_running[] =
	/* sockets */
	"accept accept4 bind connect getpeername getsockname getsockopt listen recv recvfrom "
	"recvmmsg recvmmsg_time64 recvmsg send sendmmsg sendmsg sendto setsockopt shutdown "
	"socketpair "
	/* waiting */
	"epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd2 "
	"inotify_add_watch inotify_init1 inotify_rm_watch poll ppoll ppoll_time64 pselect6 "
	"pselect6_time64 select _newselect timerfd_create timerfd_gettime timerfd_gettime64 "
	"timerfd_settime timerfd_settime64 "
	/* descriptors */
	"close close_range dup dup2 dup3 fcntl fcntl64 lseek _llseek pipe pipe2 pread64 preadv "
	"pwrite64 pwritev read readv sendfile sendfile64 splice tee write writev "
	/* of a ring that was made before and can only send (send_ring.h) */
	"io_uring_enter "
	/* files: the database, certificates, resolv.conf, /proc */
	"access chmod chown chown32 faccessat faccessat2 fadvise64 fadvise64_64 arm_fadvise64_64 "
	"fallocate fchmod fchmodat fchmodat2 fchown fchown32 fchownat fdatasync fgetxattr flock "
	"fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 getcwd "
	"getdents64 getxattr lchown lchown32 lgetxattr link linkat lstat lstat64 mkdir mkdirat "
	"newfstatat open openat readlink readlinkat rename renameat renameat2 rmdir stat stat64 "
	"statfs statfs64 statx symlink symlinkat sync_file_range sync_file_range2 truncate "
	"truncate64 umask unlink unlinkat utimensat utimensat_time64 "
	/* memory */
	"brk madvise membarrier mincore mremap msync munmap "
	/* threads and signals */
	"exit exit_group futex futex_time64 futex_waitv get_robust_list getcpu gettid "
	"restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend "
	"rt_sigtimedwait rt_sigtimedwait_time64 sched_getaffinity sched_getparam "
	"sched_getscheduler sched_yield set_robust_list sigaltstack sigreturn tgkill "
	/* time */
	"clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep "
	"clock_nanosleep_time64 gettimeofday nanosleep time "
	/* itself; capset: threads give up more */
	"capget capset getegid getegid32 geteuid geteuid32 getgid getgid32 getpgrp getpid getppid "
	"getrandom getrlimit getrusage getuid getuid32 prctl prlimit64 setpriority setrlimit "
	"sysinfo times "
	"ugetrlimit uname";

const char sandbox_probed[] = "clone3 io_uring_setup io_uring_register mbind "
			      "set_mempolicy get_mempolicy map_shadow_stack";

const char sandbox_starting[] = "arch_prctl clone execve execveat fork io_uring_register "
				"io_uring_setup kill pidfd_open seccomp set_thread_area "
				"set_tid_address set_tls vfork wait4 waitid";

const char sandbox_container[] =
	"chdir fchdir getgroups getgroups32 getpgid getresgid getresgid32 getresuid getresuid32 "
	"getsid ioctl openat2 setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups "
	"setgroups32 setpgid setresgid setresgid32 setresuid setresuid32 setsid setuid setuid32";

#define WHOLE UINT64_C(0xffffffff)

const struct sandbox_bound sandbox_bounds[] = {
	{"socket", 0, WHOLE, AF_UNIX},
	{"socket", 0, WHOLE, AF_INET},
	{"socket", 0, WHOLE, AF_INET6},
	{"socket", 0, WHOLE, AF_NETLINK},
	/* none of these ioctls answers a seccomp notification */
	{"ioctl", 1, WHOLE, FIONBIO},
	{"ioctl", 1, WHOLE, FIOCLEX},
	{"ioctl", 1, WHOLE, FIONREAD},
	{"ioctl", 1, WHOLE, TIOCOUTQ},
	{"ioctl", 1, WHOLE, TCGETS},
	{"ioctl", 1, WHOLE, TIOCGWINSZ},
	{"ioctl", 1, WHOLE, SIOCGIFINDEX},
	{"ioctl", 1, WHOLE, SIOCGIFNAME},
	/* the agent's own port on the pods' bridge (iptables/host/bridge_port.c) */
	{"ioctl", 1, WHOLE, TUNSETIFF},
	{"ioctl", 1, WHOLE, TUNATTACHFILTER},
	/* threads, no processes */
	{"clone", 0, CLONE_THREAD, CLONE_THREAD},
	/* no memory that is both writable and executable, and none made executable after it was
	 * writable */
	{"mmap", 2, PROT_WRITE | PROT_EXEC, PROT_WRITE},
	{"mmap", 2, PROT_WRITE, 0},
	{"mmap2", 2, PROT_WRITE | PROT_EXEC, PROT_WRITE},
	{"mmap2", 2, PROT_WRITE, 0},
	{"mprotect", 2, PROT_EXEC, 0},
};
const unsigned sandbox_n_bounds = ARRAY_LEN(sandbox_bounds);
