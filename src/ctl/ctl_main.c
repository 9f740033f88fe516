/*
 * edgewayctl: sends requests to a running daemon over its admin socket and shows the answers, as
 * tables for people, as JSON or YAML for programs, once or repeatedly.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/common/ctl_answer.h"
#include "src/ctl/ctl_ask.h"
#include "src/ctl/ctl_bundle.h"
#include "src/ctl/ctl_doctor.h"
#include "src/ctl/ctl_resolve.h"
#include "src/ctl/ctl_screen.h"
#include "src/ctl/ctl_show.h"
#include "src/ctl/ctl_tap.h"
#include "src/ctl/ctl_top.h"
#include "src/ctl/ctl_usage.h"

enum {
	ANSWER_MOST = 256 * 1024 * 1024,
	WATCH_MAX_S = 86400,
	TTL_MAX_S = 365 * 86400, /* the hub's own limit */
};

typedef int ctl_own_fn(
	const char *socket, const char *argument, struct buf *answer, struct err *err);

struct command {
	const char *words; /* "token create" */
	const char *method;
	const char *path;
	const char *argument; /* query key for the free argument; "only": filtered here; "": none */
	/* which member of the answer -o json and yaml print; "": all of it, NULL: only unchanged */
	const char *list;
	ctl_show_fn *show; /* NULL: print unchanged */
	/* makes the answer itself, from the free argument; NULL: the daemon does */
	ctl_own_fn *own;
};

static const struct command commands[] = {
	{"status", "GET", "/debug/state", "", "", ctl_show_status, NULL},
	{"doctor", "GET", "/debug/state", "", "", NULL, NULL},
	{"services", "GET", "/debug/services", "only", "services", ctl_show_services, NULL},
	{"endpoints", "GET", "/debug/services", "only", "services", ctl_show_endpoints, NULL},
	{"nodeports", "GET", "/debug/state", "", "iptables.external.ports", ctl_show_nodeports,
		NULL},
	{"health", "GET", "/debug/state", "only", "lb.endpoints", ctl_show_health, NULL},
	{"top", "GET", "/debug/state", "", "lb.services", ctl_show_top, NULL},
	{"resolve", "GET", "", "name", "", ctl_show_resolve, ctl_resolve},
	{"trace", "GET", "", "url", "", ctl_show_trace, ctl_trace},
	{"access check", "GET", "/access/check", "from", "", ctl_show_access, NULL},
	{"bundle", "POST", "", "file", "", ctl_show_bundle, ctl_bundle},
	{"tap", "GET", "", "service", "", NULL, NULL},
	{"upstreams", "GET", "/debug/state", "", "dns.forwarding", ctl_show_upstreams, NULL},
	{"state", "GET", "/debug/state", "", "", NULL, NULL},
	{"metrics", "GET", "/metrics", "", NULL, NULL, NULL},
	{"alive", "GET", "/healthz", "", NULL, NULL, NULL},
	{"token create", "POST", "/tokens/create", "", NULL, NULL, NULL},
	{"token list", "GET", "/tokens", "", "tokens", ctl_show_tokens, NULL},
	{"token revoke", "POST", "/tokens/revoke", "id", NULL, NULL, NULL},
	{"node list", "GET", "/nodes", "", "nodes", ctl_show_nodes, NULL},
	{"node revoke", "POST", "/nodes/revoke", "name", NULL, NULL, NULL},
	{"node forget", "POST", "/nodes/forget", "name", NULL, NULL, NULL},
	{"ca list", "GET", "/ca", "", "lacking", ctl_show_ca, NULL},
	{"ca use", "POST", "/ca/use", "", NULL, NULL, NULL},
	{"hub list", "GET", "/hubs", "", "hubs", ctl_show_hubs, NULL},
	{"hub revoke", "POST", "/hubs/revoke", "name", NULL, NULL, NULL},
	{"tunnels", "GET", "/tunnels", "", "tunnels", ctl_show_tunnels, NULL},
	{"flows", "GET", "/debug/state", "", "hub.udpFlows", ctl_show_flows, NULL},
	{"peers", "GET", "/peers", "", "peers", ctl_show_peers, NULL},
	{"streams", "GET", "/debug/streams", "", "streams", ctl_show_streams, NULL},
	{"events", "GET", "/debug/events", "part", "events", ctl_show_events, NULL},
	{"log list", "GET", "/log", "", "log", ctl_show_log, NULL},
	{"log level", "POST", "/log/level", "level", NULL, NULL, NULL},
	{"log access", "POST", "/log/access", "mode", NULL, NULL, NULL},
	{"upgrade", "POST", "/upgrade", "", NULL, NULL, NULL},
};

struct request {
	const char *socket;
	const char *node, *uses, *ttl; /* for token create */
	char ttl_text[16];
	const char *part; /* for log level */
	const char *force; /* for ca use: "yes", NULL: not given */
	const char *argument; /* free argument, NULL: none */
	const char *to; /* the second one, for access check */
	const struct command *command;
	const char *output; /* -o, NULL: not given */
	enum ctl_format format;
	unsigned watch_s; /* 0: once */
};

static void
add_query(struct buf *out, char separator, const char *key, const char *value)
{
	buf_printf(out, "%c%s=", separator, key);
	for (; *value != '\0'; value++)
		buf_printf(out, "%%%02X", (unsigned char)*value);
}

/* --node selects that node's agent; for a token it names the node that the token is for. */
static bool
is_remote(const struct request *r)
{
	return r->node != NULL && strcmp(r->command->words, "token create") != 0;
}

static void
ctl_main_build(const struct request *r, struct buf *out)
{
	const bool sent = r->argument != NULL && strcmp(r->command->argument, "only") != 0;
	const bool remote = is_remote(r);
	const struct {
		const char *key, *value;
	} all[] = {{r->command->argument, sent ? r->argument : NULL},
		{"node", remote ? NULL : r->node}, {"uses", r->uses}, {"ttl", r->ttl},
		{"part", r->part}, {"to", r->to}, {"force", r->force}};
	char separator = '?';

	buf_adds(out, r->command->path);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (all[i].value == NULL)
			continue;
		add_query(out, separator, all[i].key, all[i].value);
		separator = '&';
	}
}

/* The hub forwards the request. */
static const char *
build_method(const struct request *r, struct buf *out)
{
	auto_buf struct buf target;

	buf_init(&target, BUF_UNLIMITED);
	ctl_main_build(r, out);
	if (!is_remote(r))
		return r->command->method;
	buf_adds(&target, buf_str(out));
	buf_consume(out, buf_len(out));
	buf_adds(out, "/nodes/ask");
	add_query(out, '?', "node", r->node);
	add_query(out, '&', "target", buf_str(&target));
	return "POST";
}

/* If this daemon does not have the list, it is treated as empty. */
static int
ctl_main_print(const struct request *r, struct buf *answer)
{
	const struct command *c = r->command;
	static const struct tree_node none = {.kind = TREE_LIST};
	const struct tree_node *top, *part;
	struct tree *t auto_tree = NULL;

	if (r->format == CTL_TABLE && c->show == NULL) {
		fwrite(buf_at(answer), 1, buf_len(answer), stdout);
		return 0;
	}
	if ((t = ctl_parse(answer)) == NULL)
		return 1;
	top = tree_document(t, 0);
	if (r->format == CTL_TABLE)
		ctl_flatten(top);
	if (r->format == CTL_TABLE)
		return c->show(top, r->argument);
	part = c->list[0] != '\0' ? tree_path(top, c->list) : top;
	ctl_print_value(part != NULL ? part : &none, r->format,
		strcmp(c->argument, "only") == 0 ? r->argument : NULL);
	return 0;
}

static int
ctl_main_examine(const struct request *r, struct buf *answer)
{
	struct tree *t auto_tree = ctl_parse(answer);

	const struct doctor_ask ask = {.socket = r->socket, .silent = "its answer cannot be read"};

	return ctl_doctor(t != NULL ? tree_document(t, 0) : NULL, &ask, r->format);
}

/* A change made at one hub that cannot be passed to its replicas yet. */
static void
warn_unshared(const char *socket)
{
	auto_buf struct buf answer;
	struct tree *t auto_tree = NULL;
	const char *problem;

	buf_init(&answer, ANSWER_MOST);
	if (ctl_ask(socket, "GET", "/debug/state", &answer, NULL) < 0 ||
		(t = ctl_parse(&answer)) == NULL)
		return;
	problem = ctl_text(tree_document(t, 0), "hub.shared.problem");
	if (problem[0] != '\0')
		fprintf(stderr,
			"edgewayctl: the other replicas of the hub do not know it yet: %s\n",
			problem);
}

static int
run_once(const struct request *r)
{
	bool is_doctor = strcmp(r->command->words, "doctor") == 0;
	auto_buf struct buf target, answer;
	struct err err = {0};
	const char *method;

	buf_init(&target, BUF_UNLIMITED);
	buf_init(&answer, ANSWER_MOST);
	method = build_method(r, &target);
	if ((r->command->own != NULL
			    ? r->command->own(r->socket, r->argument, &answer, &err)
			    : ctl_ask(r->socket, method, buf_str(&target), &answer, &err)) < 0) {
		if (is_doctor)
			return ctl_doctor(NULL,
				&(struct doctor_ask){
					.socket = r->socket, .silent = err.text, .error = err.code},
				r->format);
		fprintf(stderr, "edgewayctl: %s\n", err.text);
		return 1;
	}
	if (strncmp(r->command->path, "/tokens/", 8) == 0)
		warn_unshared(r->socket);
	return is_doctor ? ctl_main_examine(r, &answer) : ctl_main_print(r, &answer);
}

/* Successive documents need a separator: in JSON they do not. */
static void
part_from_last(const struct request *r)
{
	if (r->format == CTL_YAML)
		puts("---");
	else if (r->format == CTL_TABLE && !screen_is_terminal())
		puts("");
}

static int
ctl_main_unwritten(int rc)
{
	if (rc != -EPIPE) /* the reader closed the pipe on purpose */
		fprintf(stderr, "edgewayctl: cannot write: %s\n", strerror(-rc));
	return 1;
}

/* Continues while the daemon is away, as it may return. Rates need two states. */
static int
ctl_main_run(const struct request *r)
{
	bool rates = r->command->show == ctl_show_top && r->format == CTL_TABLE;
	bool endless = r->watch_s > 0 || (rates && screen_is_terminal());
	struct screen_look look = {.out = -1, .err = -1};

	if (endless && screen_is_terminal())
		screen_clear();
	for (int rounds = 1;; rounds++) {
		int rc, written;

		if (endless)
			screen_begin(&look);
		if (endless && rounds > 1)
			part_from_last(r);
		rc = run_once(r);
		if ((written = screen_end(&look)) < 0)
			return ctl_main_unwritten(written);
		if (!endless && rounds == (rates && rc == 0 ? 2 : 1))
			return rc;
		screen_pause(r->watch_s > 0 ? r->watch_s : 1);
	}
}

static const struct command *
ctl_main_find(int *argc, char ***argv)
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

/* The hub accepts only seconds. */
static bool
read_ttl(struct request *r, const char *text)
{
	struct err err;
	unsigned seconds;

	if (ctl_read_seconds(text, 1, TTL_MAX_S, &seconds, &err) < 0) {
		bad_usage("--ttl:", err.text);
		return false;
	}
	snprintf(r->ttl_text, sizeof r->ttl_text, "%u", seconds);
	r->ttl = r->ttl_text;
	return true;
}

static bool
read_watch(struct request *r, const char *text)
{
	struct err err;

	r->watch_s = 2;
	if (text == NULL || ctl_read_seconds(text, 1, WATCH_MAX_S, &r->watch_s, &err) == 0)
		return true;
	bad_usage("--watch:", err.text);
	return false;
}

static int
check_usage(struct request *r, int argc, char **argv)
{
	static const char *const formats[] = {
		[CTL_TABLE] = "table", [CTL_JSON] = "json", [CTL_YAML] = "yaml"};
	const char *words = r->command->words;

	bool is_access = strcmp(words, "access check") == 0;

	if (is_access && argc != 2)
		return bad_usage("access check needs two: who calls, and whom", "");
	if (argc > (r->command->argument[0] != '\0' ? 1 : 0) + is_access)
		return bad_usage("too many arguments at", argv[argc - 1]);
	r->argument = argc > 0 ? argv[0] : NULL;
	r->to = is_access ? argv[1] : NULL;
	if (strcmp(words, "token revoke") == 0 && r->argument == NULL)
		return bad_usage("token revoke needs an id from token list", "");
	if ((strcmp(words, "node revoke") == 0 || strcmp(words, "node forget") == 0) &&
		r->argument == NULL)
		return bad_usage("the name of a node is missing behind", words);
	if (strcmp(words, "hub revoke") == 0 && r->argument == NULL)
		return bad_usage("hub revoke needs a name or a serial number from hub list", "");
	if ((r->uses != NULL || r->ttl != NULL) && strcmp(words, "token create") != 0)
		return bad_usage("--uses and --ttl belong to token create", "");
	if (is_remote(r) &&
		(strcmp(r->command->method, "GET") != 0 || r->command->own != NULL ||
			strcmp(words, "doctor") == 0 || strcmp(words, "tap") == 0))
		return bad_usage("--node: run it on the node itself:", words);
	if (r->force != NULL && strcmp(words, "ca use") != 0)
		return bad_usage("--force belongs to ca use", "");
	if (r->part != NULL && strcmp(words, "log level") != 0)
		return bad_usage("--part belongs to log level", "");
	if (r->command->own != NULL && r->command->own != ctl_bundle && r->argument == NULL)
		return bad_usage("a name or a URL is missing behind", words);
	if (strcmp(words, "log level") == 0 && r->argument == NULL)
		return bad_usage("log level needs a level: error, warn, info or debug", "");
	if (strcmp(words, "log access") == 0 && r->argument == NULL)
		return bad_usage("log access needs a mode: off, errors or all", "");
	while (r->output != NULL && strcmp(r->output, formats[r->format]) != 0) {
		if (++r->format == ARRAY_LEN(formats))
			return bad_usage("-o: table, json or yaml expected, not", r->output);
	}
	if (r->format != CTL_TABLE && r->command->list == NULL)
		return bad_usage("-o: there is but one form of", words);
	if (strcmp(words, "tap") == 0 && (r->format == CTL_YAML || r->watch_s > 0))
		return bad_usage("it goes on by itself, as a table or as lines of JSON:", words);
	if (strcmp(words, "bundle") == 0 && r->output != NULL && r->argument != NULL &&
		strcmp(r->argument, "-") == 0)
		return bad_usage("-o: the archive itself goes to standard output:", words);
	if (r->watch_s > 0 && strcmp(r->command->method, "GET") != 0)
		return bad_usage("--watch: would do it again and again:", words);
	return 0;
}

int
main(int argc, char **argv)
{
	static const struct option flags[] = {
		{"socket", required_argument, NULL, 's'},
		{"node", required_argument, NULL, 'n'},
		{"uses", required_argument, NULL, 'u'},
		{"ttl", required_argument, NULL, 't'},
		{"part", required_argument, NULL, 'p'},
		{"force", no_argument, NULL, 'f'},
		{"output", required_argument, NULL, 'o'},
		{"watch", optional_argument, NULL, 'w'},
		{"version", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct request r = {0};
	int flag;

	signal(SIGPIPE, SIG_IGN); /* handled like other write errors */
	screen_open();
	while ((flag = getopt_long(argc, argv, "s:ho:w::", flags, NULL)) != -1) {
		switch (flag) {
		case 's':
			r.socket = optarg;
			break;
		case 'n':
			r.node = optarg;
			break;
		case 'u':
			r.uses = optarg;
			break;
		case 't':
			if (!read_ttl(&r, optarg))
				return 2;
			break;
		case 'p':
			r.part = optarg;
			break;
		case 'f':
			r.force = "yes";
			break;
		case 'o':
			r.output = optarg;
			break;
		case 'w':
			if (!read_watch(&r, optarg))
				return 2;
			break;
		case 'v':
			puts("edgewayctl " EDGEWAY_VERSION);
			return 0;
		case 'h':
			fputs(ctl_usage, stdout);
			return 0;
		default:
			return 2;
		}
	}
	argc -= optind;
	argv += optind;
	if (argc == 0)
		return bad_usage("a command is missing", "");
	r.command = ctl_main_find(&argc, &argv);
	if (r.command == NULL)
		return bad_usage("unknown command", argv[0]);
	if (check_usage(&r, argc, argv) != 0)
		return 2;
	if (r.socket == NULL)
		r.socket = !is_remote(&r) &&
				(access("/run/edgeway/agent.sock", F_OK) == 0 || errno == EACCES)
			? "/run/edgeway/agent.sock"
			: "/run/edgeway/hub.sock";
	return strcmp(r.command->words, "tap") == 0 ? ctl_tap(r.socket, r.argument, r.format)
						    : ctl_main_run(&r);
}
