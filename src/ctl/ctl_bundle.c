#include "src/ctl/ctl_bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/conf/tree.h"
#include "base/core/gzip.h"
#include "base/core/sock.h"
#include "model/json.h"
#include "src/common/ctl_answer.h"
#include "src/ctl/ctl_ask.h"
#include "src/ctl/ctl_redact.h"
#include "src/ctl/ctl_run.h"
#include "src/ctl/ctl_tar.h"
#include "src/ctl/ctl_within.h"

enum {
	MEMBER_MOST = 64 << 20,
	FILE_MOST = 4 << 20,
	FILE_PIECE = 64 << 10,
	FOLDER_TEXT = 64,
};

struct bundle {
	const char *socket;
	char folder[FOLDER_TEXT]; /* inside the archive */
	uint64_t now_s;
	struct redactor redactor;
	struct buf tar, list; /* list: rows of JSON */
	bool is_hub, is_agent;
};

/* --- members -------------------------------------------------------------------------------- */

/* Consumes text. problem: why it is incomplete; "": it is complete. */
static void
bundle_add(struct bundle *b, const char *name, struct buf *text, const char *problem)
{
	auto_free char *path = xasprintf("%s/%s", b->folder, name);
	auto_buf struct buf clean;

	buf_init(&clean, BUF_UNLIMITED);
	if (buf_len(text) > 0)
		redact(&b->redactor, &clean, buf_at(text), buf_len(text));
	buf_printf(&b->list, "%s\n{\"member\":", buf_len(&b->list) > 0 ? "," : "");
	json_add_text(&b->list, name);
	buf_printf(&b->list, ",\"bytes\":%zu,\"problem\":", buf_len(&clean));
	json_add_text(&b->list, problem);
	buf_adds(&b->list, "}");
	if (buf_len(&clean) > 0 && strlen(path) <= TAR_NAME_MAX)
		tar_add(&b->tar, path, buf_at(&clean), buf_len(&clean), b->now_s);
	buf_consume(text, buf_len(text));
}

static void
bundle_add_file(struct bundle *b, const char *name, const char *path)
{
	auto_free char *data = NULL;
	auto_buf struct buf text;
	size_t len = 0;
	int rc = file_read(path, FILE_MOST, &data, &len);

	buf_init(&text, BUF_UNLIMITED);
	/* The arguments of a process are separated by NUL. */
	for (size_t i = 0; rc >= 0 && i < len; i++)
		data[i] = data[i] == '\0' ? ' ' : data[i];
	if (rc >= 0)
		buf_add(&text, data, len);
	bundle_add(b, name, &text, rc < 0 ? strerror(-rc) : "");
}

static void
bundle_add_run(struct bundle *b, const char *name, const char *const *argv)
{
	auto_buf struct buf text;
	auto_free char *problem = NULL;
	int rc;

	buf_init(&text, MEMBER_MOST);
	rc = ctl_run(argv, &text);
	if (rc == -ENOENT)
		problem = xasprintf("there is no program %s", argv[0]);
	else if (rc == -ETIMEDOUT)
		problem = xasprintf("%s was ended after %d s", argv[0], CTL_RUN_MS / 1000);
	else if (rc < 0)
		problem = xasprintf("%s: %s", argv[0], strerror(-rc));
	else
		problem = rc > 0 ? xasprintf("exit status %d", rc) : xstrdup("");
	bundle_add(b, name, &text, problem);
}

static void
bundle_add_answer(struct bundle *b, const char *name, const char *target)
{
	auto_buf struct buf text;
	struct err err = {0};
	int rc;

	buf_init(&text, MEMBER_MOST);
	rc = ctl_ask(b->socket, "GET", target, &text, &err);
	if (rc < 0)
		buf_consume(&text, buf_len(&text));
	bundle_add(b, name, &text, rc < 0 ? err.text : "");
}

/* --- the daemon ----------------------------------------------------------------------------- */

/* The process that listens at the socket; pid 0: unknown, as it may be in another container. */
static struct ucred
bundle_daemon(const struct bundle *b)
{
	auto_free char *text = xasprintf("unix:%s", b->socket);
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct ucred who = {0};
	socklen_t len = sizeof who;
	struct addr at;

	if (fd < 0 || addr_parse(&at, text, 0, NULL) < 0 || connect(fd, &at.sa, at.len) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		return (struct ucred){0};
	return who;
}

/* Only our own variables; the others are private. */
static void
bundle_add_variables(struct bundle *b, pid_t pid)
{
	auto_free char *path = xasprintf("/proc/%d/environ", (int)pid), *data = NULL;
	auto_buf struct buf text;
	size_t len = 0;
	int rc = file_read(path, FILE_MOST, &data, &len);

	buf_init(&text, BUF_UNLIMITED);
	for (size_t at = 0; rc >= 0 && at < len; at += strlen(data + at) + 1)
		if (strncmp(data + at, "EDGEWAY_", 8) == 0)
			buf_printf(&text, "%s\n", data + at);
	bundle_add(b, "process/variables", &text, rc < 0 ? strerror(-rc) : "");
}

/* Opens the file with the daemon's rights, or not at all; -errno. Root's supplementary groups would
 * open files for their members, so root drops them. A caller that is not root has only its own
 * rights. */
static int
bundle_open_as(const struct ucred *daemon, int base, const char *path)
{
	const gid_t group = daemon->gid;
	const bool as_another = geteuid() == 0 && daemon->uid != 0;
	const int n = getgroups(0, NULL);
	auto_free gid_t *groups = xcalloc((size_t)MAX(n, 0) + 1, sizeof *groups);
	int fsgid, fsuid, fd;

	if (as_another && (n < 0 || getgroups(n, groups) != n || setgroups(1, &group) < 0))
		return -errno;
	fsgid = setfsgid(group);
	fsuid = setfsuid(daemon->uid);
	if (as_another && (uid_t)setfsuid((uid_t)-1) != daemon->uid)
		fd = -EPERM; /* no CAP_SETUID */
	else
		fd = within_open(
			base, path[0] == '/' ? WITHIN_ROOT : WITHIN_FOLDER, path, FILE_MOST);
	setfsuid((uid_t)fsuid);
	setfsgid((gid_t)fsgid);
	if (as_another)
		setgroups((size_t)n, groups);
	return fd;
}

/* The daemon's arguments name this file. It is opened with the daemon's rights, and as it sees it
 * in its container: a compromised daemon must not make root put one of root's, or of the host's,
 * files into the archive. */
static void
bundle_read_config(struct bundle *b, const struct ucred *daemon, const char *config)
{
	auto_free char *where =
		xasprintf("/proc/%d/%s", (int)daemon->pid, config[0] == '/' ? "root" : "cwd");
	auto_fd int base = open(where, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
	auto_buf struct buf text;
	const char *problem = "";
	int rc;

	buf_init(&text, FILE_MOST);
	rc = base >= 0 ? bundle_open_as(daemon, base, config) : -errno;
	if (rc < 0)
		problem = rc == -EINVAL ? "no regular file" : strerror(-rc);
	else
		fd = rc;
	while (*problem == '\0' && buf_read(&text, fd, FILE_PIECE) > 0)
		;
	bundle_add(b, "config.yaml", &text, problem);
}

/* The file named by --config, as the daemon sees it. */
static void
bundle_add_config(struct bundle *b, const struct ucred *daemon)
{
	auto_free char *path = xasprintf("/proc/%d/cmdline", (int)daemon->pid), *data = NULL;
	const char *config = NULL;
	size_t len = 0;

	if (file_read(path, FILE_MOST, &data, &len) < 0)
		return;
	for (size_t at = 0; at < len; at += strlen(data + at) + 1) {
		const char *argument = data + at, *next = argument + strlen(argument) + 1;

		if (strncmp(argument, "--config=", 9) == 0)
			config = argument + 9;
		else if (strcmp(argument, "--config") == 0 && next < data + len)
			config = next;
	}
	if (config != NULL)
		bundle_read_config(b, daemon, config);
}

/* Comes first, so that secrets in it are known for everything that follows. */
static void
bundle_add_process(struct bundle *b)
{
	static const char *const files[] = {"cmdline", "status", "limits", "cgroup"};
	const struct ucred daemon = bundle_daemon(b);

	if (daemon.pid <= 0)
		return;
	bundle_add_config(b, &daemon);
	bundle_add_variables(b, daemon.pid);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_free char *name = xasprintf("process/%s", files[i]),
			       *path = xasprintf("/proc/%d/%s", (int)daemon.pid, files[i]);

		bundle_add_file(b, name, path);
	}
}

/* Which daemon it is, from its state, and its name for itself. */
static void
bundle_recognise(struct bundle *b, const struct tm *now)
{
	struct tree *t auto_tree = NULL;
	auto_buf struct buf answer;
	const struct tree_node *state;
	char node[33] = "", when[20];
	struct err err = {0};

	buf_init(&answer, MEMBER_MOST);
	if (ctl_ask(b->socket, "GET", "/debug/state", &answer, &err) == 0 &&
		(t = ctl_parse(&answer)) != NULL) {
		state = tree_document(t, 0);
		b->is_hub = strcmp(ctl_text(state, "program"), "edgeway-hub") == 0;
		b->is_agent = strcmp(ctl_text(state, "program"), "edgeway-agent") == 0;
		snprintf(node, sizeof node, "%s", b->is_hub ? "hub" : ctl_text(state, "node"));
	}
	for (char *c = node; *c != '\0'; c++)
		if (strchr("/\\ ", *c) != NULL)
			*c = '_';
	strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", now);
	snprintf(b->folder, sizeof b->folder, "edgeway-%.20s-%s", node[0] != '\0' ? node : "down",
		when);
}

static void
bundle_add_daemon(struct bundle *b)
{
	static const struct {
		const char *name, *target;
		bool agent, hub;
	} all[] = {
		{"state.json", "/debug/state", true, true},
		{"services.json", "/debug/services", true, false},
		{"nodes.json", "/nodes", false, true},
		{"hubs.json", "/hubs", false, true},
		{"tunnels.json", "/tunnels", false, true},
		{"peers.json", "/peers", false, true},
		{"streams.json", "/debug/streams", true, true},
		{"events.json", "/debug/events", true, true},
		{"log-levels.json", "/log", true, true},
		{"metrics.txt", "/metrics", true, true},
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if ((b->is_agent && all[i].agent) || (b->is_hub && all[i].hub) || i == 0)
			bundle_add_answer(b, all[i].name, all[i].target);
	bundle_add_run(b, "doctor.json",
		(const char *const[]){
			"/proc/self/exe", "--socket", b->socket, "-o", "json", "doctor", NULL});
}

/* --- the machine ---------------------------------------------------------------------------- */

static void
bundle_add_about(struct bundle *b, const struct tm *now)
{
	auto_buf struct buf text;
	struct utsname uts = {0};
	char when[32];

	buf_init(&text, BUF_UNLIMITED);
	strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", now);
	uname(&uts);
	buf_printf(&text,
		"made: %s\nedgewayctl: " EDGEWAY_VERSION "\nsocket: %s\nkernel: %s %s %s\n", when,
		b->socket, uts.release, uts.version, uts.machine);
	bundle_add(b, "about.txt", &text, "");
}

static void
bundle_add_machine(struct bundle *b)
{
	static const struct {
		const char *name, *path;
	} files[] = {
		{"machine/os-release", "/etc/os-release"},
		{"machine/resolv.conf", "/etc/resolv.conf"},
		{"machine/meminfo", "/proc/meminfo"},
		{"machine/loadavg", "/proc/loadavg"},
		{"machine/snmp", "/proc/net/snmp"},
	};
	static const struct {
		const char *name;
		const char *argv[12];
	} programs[] = {
		{"machine/addresses", {"ip", "addr"}},
		{"machine/routes", {"ip", "route", "show", "table", "all"}},
		{"machine/routing-rules", {"ip", "rule"}},
		{"machine/nft", {"nft", "-t", "list", "ruleset"}},
		{"machine/iptables", {"iptables-save"}},
		{"machine/listeners", {"ss", "-lntup"}},
		{"journal",
			{"journalctl", "--no-pager", "-n", "2000", "-o", "short-iso", "-u",
				"edgeway-agent", "-u", "edgeway-hub"}},
	};

	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		bundle_add_file(b, files[i].name, files[i].path);
	for (size_t i = 0; i < ARRAY_LEN(programs); i++)
		bundle_add_run(b, programs[i].name, programs[i].argv);
}

/* --- the archive ---------------------------------------------------------------------------- */

static bool
bundle_is_stdout(const char *file)
{
	return strcmp(file, "-") == 0;
}

/* -errno if it cannot be written. */
static int
bundle_open(const char *file, struct err *err)
{
	int fd;

	if (bundle_is_stdout(file) && isatty(STDOUT_FILENO))
		return err_set(err, EINVAL, "an archive does not go to a terminal: give a FILE");
	fd = bundle_is_stdout(file) ? dup(STDOUT_FILENO)
				    : open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd >= 0 ? fd
		       : err_set(err, errno,
				 "cannot make %s: %s; give another FILE, or - for standard output",
				 file, strerror(errno));
}

static int
bundle_write(struct bundle *b, const char *file, struct buf *packed, struct err *err)
{
	struct gzip *g = gzip_new(buf_len(&b->tar));
	auto_fd int fd = -1;
	size_t left;
	ssize_t n = 0;

	tar_end(&b->tar);
	gzip_add(g, packed, buf_at(&b->tar), buf_len(&b->tar));
	gzip_end(&g, packed);
	if ((fd = bundle_open(file, err)) < 0)
		return fd;
	for (left = buf_len(packed); left > 0 && n >= 0; left -= (size_t)MAX(n, (ssize_t)0))
		n = write(fd, buf_at(packed) + buf_len(packed) - left, left);
	if (n < 0 || (fsync(fd) < 0 && errno != EINVAL)) { /* a pipe cannot be synced */
		n = errno;
		if (!bundle_is_stdout(file))
			unlink(file);
		return err_set(err, (int)n, "cannot write %s: %s", file, strerror((int)n));
	}
	return 0;
}

int
ctl_bundle(const char *socket, const char *file, struct buf *answer, struct err *err)
{
	struct bundle b = {.socket = socket, .now_s = wall_ms() / 1000};
	auto_free char *made = NULL;
	auto_buf struct buf packed;
	time_t now_s = (time_t)b.now_s;
	struct tm now;
	int rc;

	gmtime_r(&now_s, &now);
	buf_init(&packed, BUF_UNLIMITED);
	buf_init(&b.tar, BUF_UNLIMITED);
	buf_init(&b.list, BUF_UNLIMITED);
	bundle_recognise(&b, &now);
	if (file == NULL)
		file = made = xasprintf("%s.tar.gz", b.folder);
	bundle_add_process(&b);
	bundle_add_about(&b, &now);
	bundle_add_daemon(&b);
	bundle_add_machine(&b);
	if ((rc = bundle_write(&b, file, &packed, err)) == 0) {
		buf_adds(answer, "{\"file\":");
		json_add_text(answer, bundle_is_stdout(file) ? "standard output" : file);
		buf_printf(answer, ",\"bytes\":%zu,\"removed\":%zu,\"members\":[%s\n]}\n",
			buf_len(&packed), b.redactor.removed, buf_str(&b.list));
	}
	redactor_fini(&b.redactor);
	buf_fini(&b.tar);
	buf_fini(&b.list);
	return rc;
}
