#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/buf.h"
#include "base/tls/pki.h"
#include "src/agent/agent_options.h"

#define TOKEN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.secret"

/* A file under /tmp with this content (NUL bytes too), whose path is `path`. */
static void
file_with(char *path, const char *content, size_t len)
{
	int fd;

	strcpy(path, "/tmp/edgeway-option-files-test-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, len), len);
	close(fd);
}

/* What the agent says of a configuration, without the path of its file; "" when it takes it. */
static const char *
load(struct agent_options *o, const char *yaml)
{
	static struct err err;
	char path[64], flag[] = "--config";
	char *argv[] = {flag, flag, path, NULL};
	enum opt_result result;
	bool check;

	memset(&err, 0, sizeof err);
	file_with(path, yaml, strlen(yaml));
	result = agent_options_load(o, 3, argv, &check, &err);
	unlink(path);
	assert_int_equal(result, err.text[0] == '\0' ? OPT_RUN : OPT_EXIT_BAD);
	return strncmp(err.text, path, strlen(path)) == 0 ? err.text + strlen(path) : err.text;
}

static void
refuses(const char *yaml, const char *want)
{
	struct agent_options o = {0};
	const char *said = load(&o, yaml);

	agent_options_free(&o);
	if (strncmp(said, want, strlen(want)) != 0)
		fail_msg("said \"%s\", not \"%s\"", said, want);
}

/* The file's path stands between `before` and `after`; what is said begins with `want` and has
 * `why`, not the content. */
static void
refuses_content(const char *before, const char *after, const char *content, size_t len,
	const char *want, const char *why)
{
	struct agent_options o = {0};
	auto_free char *yaml = NULL;
	const char *said;
	char path[64];

	file_with(path, content, len);
	yaml = xasprintf("%s%s%s", before, path, after);
	said = load(&o, yaml);
	unlink(path);
	agent_options_free(&o);
	if (strncmp(said, want, strlen(want)) != 0 || strstr(said, why) == NULL)
		fail_msg("said \"%s\", not \"%s\" and \"%s\"", said, want, why);
	assert_null(strstr(said, "s3cret"));
}

static void
secrets_come_from_files_and_are_not_shown(void **state)
{
	static const char token[] = "\xef\xbb\xbf\n " TOKEN "\r\n",
			  proxy[] = "http://u:p%40@proxy:3128\n",
			  headers[] = "# of the collector\napi-key=a,b\n\n  x=y\n";
	auto_free char *yaml = NULL;
	struct agent_options o = {0};
	auto_buf struct buf dump;
	char paths[3][64];

	(void)state;
	file_with(paths[0], token, strlen(token));
	file_with(paths[1], proxy, strlen(proxy));
	file_with(paths[2], headers, strlen(headers));
	yaml = xasprintf("hub: {tokenFile: %s, proxyFile: %s}\n"
			 "tracing: {endpoint: 'http://c', headersFile: %s}\n",
		paths[0], paths[1], paths[2]);
	assert_string_equal(load(&o, yaml), "");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		unlink(paths[i]);
	assert_string_equal(o.hub_token, TOKEN);
	assert_string_equal(o.hub_proxy, "http://u:p%40@proxy:3128");
	assert_string_equal(o.tracing_headers[0], "api-key=a,b");
	assert_string_equal(o.tracing_headers[1], "x=y");
	assert_null(o.tracing_headers[2]);
	buf_init(&dump, BUF_UNLIMITED);
	opt_dump(&agent_program, &o, &dump);
	assert_null(strstr(buf_str(&dump), ".secret"));
	assert_null(strstr(buf_str(&dump), "p%40"));
	assert_null(strstr(buf_str(&dump), "a,b"));
	assert_non_null(strstr(buf_str(&dump), paths[0]));
	agent_options_free(&o);
}

static void
a_file_that_holds_none_is_told(void **state)
{
	static const char key[] = ":1: hub.tokenFile: ";
	static char large[16386] = "s3cret";

	(void)state;
	memset(large + 6, 'x', sizeof large - 7);
	refuses_content("hub: {tokenFile: ", "}", "", 0, key, " is empty");
	refuses_content("hub: {tokenFile: ", "}", " \n", 2, key, " is empty");
	refuses_content("hub: {tokenFile: ", "}", "s3cret\nb", 8, key, " has more than one line");
	refuses_content("hub: {tokenFile: ", "}", "s3cret\0b", 8, key, " is no text");
	refuses_content("hub: {tokenFile: ", "}", large, sizeof large - 1, key, ": File too large");
	refuses_content("hub: {tokenFile: ", "}", "s3cret", 6, key, " is not a token");
	refuses_content(
		"hub: {proxyFile: ", "}", "socks5://s3cret", 15, "hub.proxy: expected http://", "");
	refuses_content("tracing: {endpoint: 'http://c', headersFile: ", "}", "s3cret", 6,
		"tracing.headers: expected NAME", "");
	refuses("hub: {tokenFile: token}", ":1: hub.tokenFile: expected a full path");
	refuses("hub: {tokenFile: /dev/null/token}",
		":1: hub.tokenFile: cannot read /dev/null/token: Not a directory");
	refuses("hub: {proxyFile: /nonexistent/proxy}",
		":1: hub.proxyFile: cannot read /nonexistent/proxy: No such file");
}

static void
a_value_and_a_file_are_one_too_many(void **state)
{
	(void)state;
	refuses_content("hub: {token: " TOKEN ", tokenFile: ", "}", TOKEN, strlen(TOKEN),
		":1: hub.tokenFile: hub.token is given as well", "");
	refuses_content("tracing: {headers: [a=b], headersFile: ", "}", "a=b", 3,
		":1: tracing.headersFile: tracing.headers is given as well", "");
}

/* A Secret that is mounted: each node has the key of its name, or all the same one. */
static void
of_a_folder_the_nodes_own_file_goes_first(void **state)
{
	static const char other[] =
		"0000000000000000000000000000000000000000000000000000000000000000.s";
	char dir[] = "/tmp/option-files-XXXXXX";
	const char *const names[] = {"token", "edge-1"}, *const texts[] = {other, TOKEN};
	auto_free char *yaml = NULL;

	(void)state;
	assert_non_null(mkdtemp(dir));
	yaml = xasprintf("node: edge-1\nhub: {tokenFile: %s}", dir);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_free char *path = xasprintf("%s/%s", dir, names[i]);
		struct agent_options o = {0};

		assert_int_equal(file_write(path, texts[i], strlen(texts[i]), 0600), 0);
		assert_string_equal(load(&o, yaml), "");
		assert_string_equal(o.hub_token, texts[i]);
		agent_options_free(&o);
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_free char *path = xasprintf("%s/%s", dir, names[i]);

		unlink(path);
	}
	rmdir(dir);
}

/* It was taken away after the node had joined. */
static void
a_token_that_is_gone_is_none(void **state)
{
	struct agent_options o = {0};

	(void)state;
	assert_string_equal(load(&o, "hub: {tokenFile: /nonexistent/token}"), "");
	assert_string_equal(o.hub_token, "");
	agent_options_free(&o);
}

/* A node that has joined is served on, whatever became of the file. */
static void
who_has_joined_needs_no_token(void **state)
{
	static const char *const contents[] = {
		"", " \n", "# used up\n", "\"" TOKEN "\"\n", "a\nb\n"};
	char dir[] = "/tmp/option-files-XXXXXX", path[64];
	auto_free char *ca = NULL, *key = NULL, *cert = NULL, *yaml = NULL;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(pki_ca_new("node", 1, &ca, &key, NULL), 0);
	cert = xasprintf("%s/node.crt", dir);
	for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
		struct agent_options o = {0};

		file_with(path, contents[i], strlen(contents[i]));
		free(yaml);
		yaml = xasprintf("dataDir: %s\nhub: {tokenFile: %s}", dir, path);
		assert_int_equal(file_write(cert, ca, strlen(ca), 0600), 0);
		assert_string_equal(load(&o, yaml), "");
		assert_string_equal(o.hub_token, "");
		agent_options_free(&o);
		/* a certificate that is none does not count */
		assert_int_equal(file_write(cert, "", 0, 0600), 0);
		refuses(yaml, ":2: hub.tokenFile: /tmp/");
		unlink(path);
	}
	free(yaml);
	yaml = xasprintf("dataDir: %s\nhub: {token: s3cret}", dir);
	assert_int_equal(file_write(cert, ca, strlen(ca), 0600), 0);
	refuses(yaml, ":2: hub.token: not a token");
	unlink(cert);
	rmdir(dir);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_come_from_files_and_are_not_shown),
		cmocka_unit_test(a_file_that_holds_none_is_told),
		cmocka_unit_test(a_value_and_a_file_are_one_too_many),
		cmocka_unit_test(of_a_folder_the_nodes_own_file_goes_first),
		cmocka_unit_test(a_token_that_is_gone_is_none),
		cmocka_unit_test(who_has_joined_needs_no_token),
	};

	setenv("EDGEWAY_HUB_URL", "wss://hub", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
