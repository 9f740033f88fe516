#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/conf/opt.h"
#include "base/conf/tree.h"
#include "base/core/buf.h"

#define TEST_OPTIONS(X)                                                                            \
	X(STRING, name, "name", "none", "a text")                                                  \
	X(LIST, hub_node_ids, "hub.nodeIds", "", "a list")                                         \
	X(BOOL, dns_on, "dns.on", "true", "a switch")                                              \
	X(UINT, dns_port, "dns.port", "53", "a number", .min = 1, .max = 65535)                    \
	X(UINT, dns_ttl, "dns.ttl", "30", "another", .reload = true)                               \
	X(DURATION, wait, "wait", "4s", "a time", .min = 100, .max = 3600000)                      \
	X(ENUM, level, "log.level", "info", "a word", .words = "error|warn|info")                  \
	X(CIDR, subnet, "mesh.subnet", "9.251.0.0/16", "a network")                                \
	X(ADDRESS, listen, "listen", "127.0.0.1:80", "an address")                                 \
	X(TREE, access, "access", "[]", "a tree")                                                  \
	X(STRING, token, "hub.token", "", "a secret")                                              \
	X(STRING, kubeconfig, "source.kubernetes.kubeconfig", "", "deep down")

struct options {
	struct opt_head head;
	TEST_OPTIONS(OPT_MEMBER)
};

#define ROW(type, member, ...) OPT_ROW(struct options, type, member, __VA_ARGS__)
static const struct opt table[] = {TEST_OPTIONS(ROW)};
static const struct opt_program program = {
	.name = "prog",
	.summary = "Tests options.",
	.table = table,
	.n = ARRAY_LEN(table),
	.action = "act",
	.action_help = "does that instead",
};

struct run {
	struct options o;
	struct err err;
	bool check;
	enum opt_result result;
	char path[64];
};

/* argv is "a b c", split at blanks; `file` NULL: none. The file's name in complaints is FILE. */
static void
load(struct run *r, const char *file, const char *flags)
{
	auto_free char *copy = xstrdup(flags);
	char *argv[20] = {(char *)(uintptr_t) "prog"}, *save = NULL;
	int argc = 1, fd;

	memset(r, 0, sizeof *r);
	if (file != NULL) {
		snprintf(r->path, sizeof r->path, "/tmp/edgeway-opt-test-XXXXXX");
		fd = mkstemp(r->path);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, file, strlen(file)), strlen(file));
		close(fd);
		argv[argc++] = (char *)(uintptr_t) "--config";
		argv[argc++] = r->path;
	}
	for (char *word = strtok_r(copy, " ", &save); word != NULL;
		word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	r->result = opt_load(&program, &r->o, argc, argv, &r->check, &r->err);
	if (file != NULL)
		unlink(r->path);
}

static void
done(struct run *r)
{
	opt_free(&program, &r->o);
}

static void
loads(struct run *r, const char *file, const char *flags)
{
	load(r, file, flags);
	if (r->result != OPT_RUN)
		fail_msg("%s", r->err.text);
}

/* The complaint must be `want`, behind the path of the file when it starts with ':'. */
static void
refuses(const char *file, const char *flags, const char *want)
{
	struct run r;
	const char *said;

	load(&r, file, flags);
	assert_int_equal(r.result, OPT_EXIT_BAD);
	said = r.err.text;
	if (want[0] == ':') {
		assert_int_equal(strncmp(said, r.path, strlen(r.path)), 0);
		said += strlen(r.path);
	}
	assert_string_equal(said, want);
	done(&r);
}

static void
gives_defaults(void **state)
{
	struct run r;

	(void)state;
	loads(&r, NULL, "");
	assert_string_equal(r.o.name, "none");
	assert_null(r.o.hub_node_ids[0]);
	assert_true(r.o.dns_on);
	assert_int_equal(r.o.dns_port, 53);
	assert_int_equal(r.o.wait, 4000);
	assert_int_equal(r.o.level, 2);
	assert_int_equal(r.o.subnet.address, 0x09fb0000);
	assert_int_equal(r.o.subnet.mask, 0xffff0000);
	assert_int_equal(r.o.subnet.bits, 16);
	assert_string_equal(r.o.listen, "127.0.0.1:80");
	assert_null(r.o.access);
	assert_false(r.check);
	assert_false(opt_given(&r.o, "name"));
	done(&r);
}

static void
reads_a_file(void **state)
{
	struct run r;

	(void)state;
	loads(&r,
		"name: \"7\"\nhub: {nodeIds: [a, 'b c'], token: t}\ndns:\n  on: false\n  port: "
		"5353\n  ttl:\n"
		"wait: 2m\nmesh: {subnet: 10.0.0.0/8}\nlog: {level: error}\nlisten: \"\"\n"
		"access:\n- from: x\n",
		"");
	assert_string_equal(r.o.name, "7");
	assert_string_equal(r.o.hub_node_ids[1], "b c");
	assert_null(r.o.hub_node_ids[2]);
	assert_false(r.o.dns_on);
	assert_int_equal(r.o.dns_port, 5353);
	assert_int_equal(r.o.dns_ttl, 30); /* null is the default */
	assert_int_equal(r.o.wait, 120000);
	assert_int_equal(r.o.level, 0);
	assert_string_equal(r.o.listen, "");
	assert_string_equal(tree_text(tree_get(r.o.access->child, "from"), ""), "x");
	done(&r);
	loads(&r, "", "");
	done(&r);
	loads(&r, "{\"dns\": {\"port\": 54}}", "");
	assert_int_equal(r.o.dns_port, 54);
	done(&r);
}

static void
flags_win_over_variables_over_the_file(void **state)
{
	static const char file[] = "name: file\ndns: {port: 1, ttl: 1}\n";
	struct run r;

	(void)state;
	setenv("EDGEWAY_DNS_PORT", "2", 1);
	setenv("EDGEWAY_DNS_TTL", "2", 1);
	setenv("EDGEWAY_HUB_NODE_IDS", "x, y ,,z", 1);
	loads(&r, file, "--dns.ttl 3");
	assert_string_equal(r.o.name, "file");
	assert_int_equal(r.o.dns_port, 2);
	assert_int_equal(r.o.dns_ttl, 3);
	assert_string_equal(r.o.hub_node_ids[1], "y");
	assert_string_equal(r.o.hub_node_ids[2], "z");
	assert_null(r.o.hub_node_ids[3]);
	done(&r);
	setenv("EDGEWAY_DNS_PORT", "tcp://10.0.0.1:53", 1);
	load(&r, NULL, "");
	assert_int_equal(r.result, OPT_EXIT_BAD);
	assert_non_null(
		strstr(r.err.text, "EDGEWAY_DNS_PORT: expected a whole number from 1 to 65535"));
	assert_non_null(strstr(r.err.text, "enableServiceLinks"));
	done(&r);
	unsetenv("EDGEWAY_DNS_PORT");
	unsetenv("EDGEWAY_DNS_TTL");
	unsetenv("EDGEWAY_HUB_NODE_IDS");
	setenv("EDGEWAY_UNHEARD_OF", "1", 1);
	loads(&r, NULL, ""); /* only warns */
	done(&r);
	unsetenv("EDGEWAY_UNHEARD_OF");
}

static void
reads_flags(void **state)
{
	struct run r;

	(void)state;
	loads(&r, NULL,
		"--dns.on=false --name=a=b --dns.on --dns.port 1 --dns.port 2 --check --access "
		"[{from:x}]");
	assert_true(r.o.dns_on); /* the last value wins */
	assert_true(r.check);
	assert_string_equal(r.o.name, "a=b");
	assert_int_equal(r.o.dns_port, 2);
	assert_int_equal(r.o.access->kind, TREE_LIST);
	done(&r);
	loads(&r, NULL, "--dns.on false --name=");
	assert_false(r.o.dns_on);
	assert_string_equal(r.o.name, "");
	done(&r);
	refuses(NULL, "--name", "--name needs a value (--name=VALUE)");
	refuses(NULL, "--name --dns.on", "--name needs a value (--name=VALUE)");
	refuses(NULL, "--check=yes", "--check takes no value");
	refuses(NULL, "--act=yes", "--act takes no value");
	refuses(NULL, "serve", "unexpected argument \"serve\": options look like --dns.ttl 30");
	refuses(NULL, "--dns.port 0",
		"--dns.port: expected a whole number from 1 to 65535, not \"0\"");
	refuses(NULL, "--access {", "--access:1: not JSON at \"{\"");
}

static void
names_unknown_keys(void **state)
{
	(void)state;
	refuses("name: x\ndns:\n  prot: 5\n", "",
		":3: unknown key \"dns.prot\"; did you mean \"dns.port\"?");
	refuses("ttl: 5\n", "", ":1: unknown key \"ttl\"; did you mean \"dns.ttl\"?");
	refuses("entirely: 5\n", "", ":1: unknown key \"entirely\" (--help lists them all)");
	refuses("dns: 5\n", "", ":1: dns: expected a map of keys, not a single value");
	refuses("dns:\n- port\n", "", ":1: dns: expected a map of keys, not a list");
	refuses(NULL, "--dns.tl 5",
		"command line: unknown key \"dns.tl\"; did you mean \"dns.ttl\"?");
	refuses(NULL, "--hub.nodeids 5",
		"command line: unknown key \"hub.nodeids\"; did you mean \"hub.nodeIds\"?");
}

static void
names_bad_values(void **state)
{
	(void)state;
	refuses("\ndns: {port: x}\n", "",
		":2: dns.port: expected a whole number from 1 to 65535, not \"x\"");
	refuses("dns: {port: 65536}", "",
		":1: dns.port: expected a whole number from 1 to 65535, not \"65536\"");
	refuses("dns: {port: [1]}", "", ":1: dns.port: expected a single value, not a list");
	refuses("dns: {on: maybe}", "", ":1: dns.on: expected true or false, not \"maybe\"");
	refuses("wait: 4", "",
		":1: wait: expected a time with its unit, such as 4s or 4ms, not \"4\"");
	refuses("wait: 2h", "", ":1: wait: expected a time from 100ms to 1h, not \"2h\"");
	refuses("wait: 99ms", "", ":1: wait: expected a time from 100ms to 1h, not \"99ms\"");
	refuses("wait: 1.5s", "",
		":1: wait: expected a time such as 300ms, 4s, 10m, 2h or 1d, not \"1.5s\"");
	refuses("log: {level: loud}", "",
		":1: log.level: expected one of error|warn|info, not \"loud\"");
	refuses("log: {level: inf}", "",
		":1: log.level: expected one of error|warn|info, not \"inf\"");
	refuses("mesh: {subnet: 9.251.0.1/16}", "",
		":1: mesh.subnet: \"9.251.0.1/16\" has bits set behind its prefix: write "
		"9.251.0.0/16");
	refuses("mesh: {subnet: 9.251.0.0}", "",
		":1: mesh.subnet: expected an IPv4 network such as 9.251.0.0/16, not "
		"\"9.251.0.0\"");
	refuses("mesh: {subnet: 9.251.0.0/33}", "",
		":1: mesh.subnet: expected an IPv4 network such as 9.251.0.0/16, not "
		"\"9.251.0.0/33\"");
	refuses("listen: 127.0.0.1", "",
		":1: listen: expected IP:PORT with a port from 1 to 65535, not \"127.0.0.1\"");
	refuses("hub: {nodeIds: [a, {b: c}]}", "",
		":1: hub.nodeIds: expected a list of texts; item 2 is not a text");
	refuses("- a\n", "", ":1: expected a map of keys");
	refuses("name: a\n---\nname: b\n", "",
		":3: a configuration is one document; a second one begins here");
	refuses("name: a\nname: b\n", "",
		":2: the key \"name\" stands here a second time (first on line 1)");
}

static void
bounds_the_file(void **state)
{
	struct run r;
	auto_free char *big = xmalloc(OPT_FILE_BYTES_MAX + 2);

	(void)state;
	memset(big, '#', OPT_FILE_BYTES_MAX + 1);
	big[OPT_FILE_BYTES_MAX + 1] = '\0';
	refuses(big, "", ": a configuration has at most 1048576 bytes");
	load(&r, NULL, "--config /nowhere/at/all.yaml");
	assert_int_equal(r.result, OPT_EXIT_BAD);
	assert_string_equal(r.err.text,
		"cannot read the configuration /nowhere/at/all.yaml: No such file or directory");
	done(&r);
}

static void
knows_what_was_given(void **state)
{
	struct run r;

	(void)state;
	loads(&r, "source: {kubernetes: {}}\n", "--name none");
	assert_true(opt_given(&r.o, "source.kubernetes.kubeconfig"));
	assert_true(opt_given(&r.o, "name"));
	assert_false(opt_given(&r.o, "dns.port"));
	opt_complain(&r.o, "name", NULL, &r.err, "is %s", "odd");
	assert_string_equal(r.err.text, "--name: is odd");
	opt_complain(&r.o, "dns.port", NULL, &r.err, "is odd");
	assert_string_equal(r.err.text, "dns.port: is odd");
	opt_complain(&r.o, "source.kubernetes.kubeconfig", NULL, &r.err, "is odd");
	assert_non_null(strstr(r.err.text, ":1: source.kubernetes.kubeconfig: is odd"));
	done(&r);
}

static void
dumps_without_secrets(void **state)
{
	struct run r;
	struct buf out auto_buf;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	loads(&r, NULL,
		"--hub.token abcdef --name http://me:pass@proxy:3128 --hub.nodeIds a,b --access "
		"[{\"f\":\"\"}]");
	opt_dump(&program, &r.o, &out);
	assert_null(strstr(buf_str(&out), "abcdef"));
	assert_null(strstr(buf_str(&out), "pass"));
	assert_non_null(strstr(buf_str(&out), "hub.token: (hidden)\n"));
	assert_non_null(strstr(buf_str(&out), "name: \"http://(hidden)@proxy:3128\"\n"));
	assert_non_null(strstr(buf_str(&out), "hub.nodeIds: [a, b]\n"));
	assert_non_null(strstr(buf_str(&out), "wait: 4s\n"));
	assert_non_null(strstr(buf_str(&out), "mesh.subnet: 9.251.0.0/16\n"));
	assert_non_null(strstr(buf_str(&out), "access: [{f: \"\"}]\n"));
	assert_non_null(strstr(buf_str(&out), "log.level: info\n"));
	done(&r);
}

/* What was dumped reads back as the same values. */
static void
dump_reads_back(void **state)
{
	struct run r, again;
	struct buf out auto_buf;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	loads(&r,
		"name: \"a \\\"b\\\": #\\n c\"\nwait: 1500ms\nhub: {nodeIds: ['x y', '*', ':1-9', "
		"'null', '~', a]}\naccess: [{a: [1, '*']}]\n",
		"");
	opt_dump(&program, &r.o, &out);
	loads(&again, buf_str(&out), "");
	assert_string_equal(again.o.hub_node_ids[3], "null");
	assert_null(again.o.hub_node_ids[6]);
	assert_string_equal(again.o.name, "a \"b\": #\n c");
	assert_null(opt_changed(&program, &r.o, &again.o, NULL));
	done(&r);
	done(&again);
}

/* What others see of the process is overwritten; what it reads itself, again and again, is not. */
static void
hides_secrets(void **state)
{
	char flags[][64] = {"prog", "--hub.token", "s3cret-1", "--hub.token=s3cret-2", "--name",
		"http://me:s3cret-3@proxy:1", "--dns.ttl", "31", "--hub.token"};
	char variable[64] = "EDGEWAY_HUB_TOKEN=s3cret-4";
	char *argv[ARRAY_LEN(flags) + 1] = {NULL};
	char *no_environment[] = {variable, NULL}, **before = environ;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		argv[i] = flags[i];
	environ = no_environment;
	opt_hide_secrets(&program, (int)ARRAY_LEN(flags), argv);
	assert_string_equal(getenv("EDGEWAY_HUB_TOKEN"), "s3cret-4");
	environ = before;
	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		for (size_t k = 0; k + 6 < sizeof flags[i]; k++)
			assert_int_not_equal(memcmp(flags[i] + k, "s3cret", 6), 0);
	assert_string_equal(variable, "EDGEWAY_HUB_TOKEN=");
	assert_string_equal(argv[2], "s3cret-1");
	assert_string_equal(argv[3], "--hub.token=s3cret-2");
	assert_string_equal(argv[5], "http://me:s3cret-3@proxy:1");
	assert_ptr_equal(argv[7], flags[7]);
	free(argv[2]);
	free(argv[3]);
	free(argv[5]);
	free(no_environment[0]);
}

static void
finds_changes(void **state)
{
	struct run a, b;
	const struct opt *o;

	(void)state;
	loads(&a, NULL, "");
	loads(&b, NULL, "--dns.ttl 31 --hub.nodeIds x");
	o = opt_changed(&program, &a.o, &b.o, NULL);
	assert_string_equal(o->key, "hub.nodeIds");
	o = opt_changed(&program, &a.o, &b.o, o);
	assert_string_equal(o->key, "dns.ttl");
	assert_true(o->reload);
	assert_null(opt_changed(&program, &a.o, &b.o, o));
	done(&a);
	done(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_defaults),
		cmocka_unit_test(reads_a_file),
		cmocka_unit_test(flags_win_over_variables_over_the_file),
		cmocka_unit_test(reads_flags),
		cmocka_unit_test(names_unknown_keys),
		cmocka_unit_test(names_bad_values),
		cmocka_unit_test(bounds_the_file),
		cmocka_unit_test(knows_what_was_given),
		cmocka_unit_test(dumps_without_secrets),
		cmocka_unit_test(dump_reads_back),
		cmocka_unit_test(hides_secrets),
		cmocka_unit_test(finds_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
