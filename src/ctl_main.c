/*
 * edgewayctl: asks a running daemon over its admin socket and shows the answer. HTTP/1.0 over a Unix
 * socket; the daemons close after every answer, so the end of the stream is the end of the body.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/sock.h"
#include "src/ctl_show.h"

enum { ANSWER_MOST = 256 * 1024 * 1024, PATIENCE_S = 10 };

static const char usage[] =
	"Usage: edgewayctl [--socket PATH] COMMAND\n"
	"\n"
	"  status                    one look: is it ready, and if not, why\n"
	"  services                  services with their addresses and ports (agent)\n"
	"  endpoints [NS/NAME]       where requests go (agent)\n"
	"  health [NS/NAME]          how the endpoints in use are, as each worker sees them "
	"(agent)\n"
	"  upstreams                 who is asked for other names, and who answers (agent)\n"
	"  state                     everything, as JSON\n"
	"  metrics                   Prometheus text\n"
	"  token create [--node NODE] [--ttl SECONDS]\n"
	"                            a token to join with; alone on the last line (hub)\n"
	"  token list                tokens that have not ended (hub)\n"
	"  token revoke ID           end a token now (hub)\n"
	"  node list                 nodes that joined, which are connected, their certificates "
	"(hub)\n"
	"  node revoke NODE          refuse the certificates of a node and cut its connection "
	"(hub)\n"
	"  tunnels                   tunnels of nodes: streams, bytes, round trips (hub)\n"
	"\n"
	"  --socket PATH   admin socket of the daemon; else /run/edgeway/agent.sock or, where "
	"there is\n"
	"                  none, /run/edgeway/hub.sock\n"
	"  --version, --help\n";

struct command {
	const char *words; /* "token create" */
	const char *method;
	const char *path;
	const char *argument; /* query key of the free argument, "" none */
	ctl_show_fn *show; /* NULL: as it comes */
};

static const struct command commands[] = {
	{"status", "GET", "/debug/state", "", ctl_show_status},
	{"services", "GET", "/debug/services", "", ctl_show_services},
	{"endpoints", "GET", "/debug/services", "only", ctl_show_endpoints},
	{"health", "GET", "/debug/state", "only", ctl_show_health},
	{"upstreams", "GET", "/debug/state", "", ctl_show_upstreams},
	{"state", "GET", "/debug/state", "", NULL},
	{"metrics", "GET", "/metrics", "", NULL},
	{"token create", "POST", "/tokens/create", "", NULL},
	{"token list", "GET", "/tokens", "", ctl_show_tokens},
	{"token revoke", "POST", "/tokens/revoke", "id", NULL},
	{"node list", "GET", "/nodes", "", ctl_show_nodes},
	{"node revoke", "POST", "/nodes/revoke", "name", NULL},
	{"tunnels", "GET", "/tunnels", "", ctl_show_tunnels},
};

struct request {
	const char *socket;
	const char *node, *ttl; /* of token create */
	const char *argument; /* free argument, NULL none */
	const struct command *command;
};

static int
fail(const char *what, const char *why)
{
	fprintf(stderr, "edgewayctl: %s: %s\n", what, why);
	return 1;
}

static void
add_query(struct buf *out, char separator, const char *key, const char *value)
{
	buf_printf(out, "%c%s=", separator, key);
	for (; *value != '\0'; value++)
		buf_printf(out, "%%%02X", (unsigned char)*value);
}

static void
build(const struct request *r, struct buf *out)
{
	char separator = '?';

	buf_printf(out, "%s %s", r->command->method, r->command->path);
	if (r->argument != NULL && strcmp(r->command->argument, "only") != 0) {
		add_query(out, separator, r->command->argument, r->argument);
		separator = '&';
	}
	if (r->node != NULL) {
		add_query(out, separator, "node", r->node);
		separator = '&';
	}
	if (r->ttl != NULL)
		add_query(out, separator, "ttl", r->ttl);
	buf_adds(out,
		" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
}

static int
open_socket(const char *path, int *out)
{
	auto_free char *text = xasprintf("unix:%s", path);
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct addr addr;
	struct err err = {0};

	if (addr_parse(&addr, text, 0, &err) < 0)
		return fail("--socket", err.text);
	if (fd < 0)
		return fail("socket", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	if (connect(fd, &addr.sa, addr.len) < 0) {
		auto_free char *what = xasprintf("cannot reach the daemon at %s", path);

		if (errno == EACCES)
			return fail(
				what, "permission denied; run it as root or as the daemon's user");
		return fail(what,
			errno == ENOENT || errno == ECONNREFUSED
				? "it does not run, or has another admin.socket (--socket)"
				: strerror(errno));
	}
	*out = take_fd(&fd);
	return 0;
}

static int
exchange(int fd, struct buf *request, struct buf *answer)
{
	ssize_t n;

	while (buf_len(request) > 0) {
		if ((n = buf_write(request, fd)) < 0)
			return fail("the daemon does not listen", strerror((int)-n));
	}
	while ((n = buf_read(answer, fd, 65536)) > 0)
		;
	if (n < 0)
		return fail("no whole answer from the daemon",
			n == -EAGAIN ? "it is silent" : strerror((int)-n));
	return 0;
}

/* Leaves the body in `answer`; the exit status says whether it is a good one. */
static int
split(struct buf *answer)
{
	const char *text = buf_str(answer);
	const char *body = strstr(text, "\r\n\r\n");
	int status = 0;

	if (body == NULL || sscanf(text, "HTTP/1.%*d %d", &status) != 1)
		return fail(
			"bad answer", "not HTTP; is this the admin socket of an Edgeway daemon?");
	buf_consume(answer, (size_t)(body + 4 - text));
	if (status / 100 == 2)
		return 0;
	fprintf(stderr, "edgewayctl: %s",
		status == 404 ? "this daemon does not know the command (agent or hub?): " : "");
	fprintf(stderr, "%s", buf_str(answer));
	return 1;
}

static int
run(const struct request *r)
{
	auto_buf struct buf request, answer;
	auto_fd int fd = -1;

	buf_init(&request, BUF_UNLIMITED);
	buf_init(&answer, ANSWER_MOST);
	build(r, &request);
	if (open_socket(r->socket, &fd) != 0 || exchange(fd, &request, &answer) != 0 ||
		split(&answer) != 0)
		return 1;
	if (r->command->show != NULL)
		return r->command->show(buf_str(&answer), buf_len(&answer), r->argument);
	fwrite(buf_at(&answer), 1, buf_len(&answer), stdout);
	return 0;
}

static const struct command *
find(int *argc, char ***argv)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		const char *second = strchr(commands[i].words, ' ');
		size_t first = second != NULL ? (size_t)(second - commands[i].words)
					      : strlen(commands[i].words);
		int words = second != NULL ? 2 : 1;

		if (*argc < words || strlen((*argv)[0]) != first ||
			strncmp((*argv)[0], commands[i].words, first) != 0)
			continue;
		if (second != NULL && strcmp((*argv)[1], second + 1) != 0)
			continue;
		*argc -= words;
		*argv += words;
		return &commands[i];
	}
	return NULL;
}

static int
bad_usage(const char *why, const char *word)
{
	fprintf(stderr, "edgewayctl: %s%s%s; edgewayctl --help shows the commands\n", why,
		word[0] != '\0' ? " " : "", word);
	return 2;
}

int
main(int argc, char **argv)
{
	static const struct option flags[] = {
		{"socket", required_argument, NULL, 's'},
		{"node", required_argument, NULL, 'n'},
		{"ttl", required_argument, NULL, 't'},
		{"version", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct request r = {0};
	int flag;

	while ((flag = getopt_long(argc, argv, "s:h", flags, NULL)) != -1) {
		switch (flag) {
		case 's':
			r.socket = optarg;
			break;
		case 'n':
			r.node = optarg;
			break;
		case 't':
			r.ttl = optarg;
			break;
		case 'v':
			puts("edgewayctl " EDGEWAY_VERSION);
			return 0;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			return 2;
		}
	}
	argc -= optind;
	argv += optind;
	if (argc == 0)
		return bad_usage("a command is missing", "");
	r.command = find(&argc, &argv);
	if (r.command == NULL)
		return bad_usage("unknown command", argv[0]);
	if (argc > (r.command->argument[0] != '\0' ? 1 : 0))
		return bad_usage("too many arguments at", argv[argc - 1]);
	r.argument = argc > 0 ? argv[0] : NULL;
	if (strcmp(r.command->words, "token revoke") == 0 && r.argument == NULL)
		return bad_usage("token revoke needs an id from token list", "");
	if (strcmp(r.command->words, "node revoke") == 0 && r.argument == NULL)
		return bad_usage("node revoke needs the name of a node", "");
	if ((r.node != NULL || r.ttl != NULL) && strcmp(r.command->words, "token create") != 0)
		return bad_usage("--node and --ttl belong to token create", "");
	if (r.socket == NULL)
		r.socket = access("/run/edgeway/agent.sock", F_OK) == 0 ? "/run/edgeway/agent.sock"
									: "/run/edgeway/hub.sock";
	return run(&r);
}
