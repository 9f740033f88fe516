#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "src/ctl/ctl_redact.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char *
redacted(struct redactor *r, const char *text)
{
	static struct buf out;

	buf_fini(&out);
	buf_init(&out, BUF_UNLIMITED);
	redact(r, &out, text, strlen(text));
	return buf_str(&out);
}

struct sample {
	const char *text, *without;
};

static void
check_all(const struct sample *samples, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct redactor r = {0};

		assert_string_equal(redacted(&r, samples[i].text), samples[i].without);
		assert_int_equal(r.removed > 0, strcmp(samples[i].text, samples[i].without) != 0);
		redactor_fini(&r);
	}
}

static const struct sample secrets[] = {
	{"hub:\n  token: " HASH ".s3cr3t-Of_It\n  url: wss://hub:10000\n",
		"hub:\n  token: " REDACTED "\n  url: wss://hub:10000\n"},
	{"joined with " HASH ".s3cr3tOfIt now", "joined with " HASH "." REDACTED " now"},
	{"EDGEWAY_HUB_TOKEN=abc,d;e f", "EDGEWAY_HUB_TOKEN=" REDACTED " f"},
	{"--hub.token abc --node n", "--hub.token " REDACTED " --node n"},
	{"--hub.token=abc --node n", "--hub.token=" REDACTED " --node n"},
	{"password: p#a;s, s{w}ord\nx: 1", "password: " REDACTED "\nx: 1"},
	{"password: 'it''s'\n", "password: '" REDACTED "'\n"},
	{"{\"password\":\"a\\\"b c\",\"x\":1}", "{\"password\":\"" REDACTED "\",\"x\":1}"},
	{"{\"event\":\"it said \\\"secret\\\":\\\"h&m\\\" to=x\"}",
		"{\"event\":\"it said \\\"secret\\\":\\\"" REDACTED "\\\" to=x\"}"},
	{"Authorization: Basic dXNlcjpwYXNz\r\nHost: a\r\n",
		"Authorization: " REDACTED "\r\nHost: a\r\n"},
	{"proxy says Basic dXNlcjpwYXNz", "proxy says Basic " REDACTED},
	{"with bearer 0123456789abcdef.", "with bearer " REDACTED},
	{"Cookie: a=b; c=d\nx", "Cookie: " REDACTED "\nx"},
	{"http://user:p,a;ss@proxy:3128/x", "http://" REDACTED "@proxy:3128/x"},
	{"GET /x?token=abc&y=1", "GET /x?token=" REDACTED "&y=1"},
	{"jwt eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln end", "jwt " REDACTED " end"},
	{"-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\nI/x=\n-----END EC PRIVATE "
	 "KEY-----\nnext",
		REDACTED "\nnext"},
	{"{\"pem\":\"-----BEGIN PRIVATE KEY-----\\nMHc\\n-----END PRIVATE KEY-----\\n\"}",
		"{\"pem\":\"" REDACTED "\\n\"}"},
	{"a -----BEGIN RSA PRIVATE KEY-----\ncut", "a " REDACTED},
	{"password: /x-1Kc\npassword: [x, y\n", "password: " REDACTED "\npassword: " REDACTED "\n"},
	{"secret: {a}\ntoken: 12345678\n", "secret: " REDACTED "\ntoken: " REDACTED "\n"},
	{"{\"password\":12345,\"x\":1}", "{\"password\":" REDACTED ",\"x\":1}"},
	{"{\"passwords\":[\"a\", \"/b\"],\"x\":\"y\"}",
		"{\"passwords\":[\"" REDACTED "\", \"" REDACTED "\"],\"x\":\"y\"}"},
	{"secretprofile: /a", "secretprofile: " REDACTED},
	{"private_key: /a", "private_key: " REDACTED},
	{"a:\n  password: |\n    l1 x\n\n      l2\n  user: me\n",
		"a:\n  password: |\n    " REDACTED "\n\n      " REDACTED "\n  user: me\n"},
	{"- token: >2- # why\n    abc\r\n  user: me",
		"- token: >2- # why\n    " REDACTED "\r\n  user: me"},
	{"psk_key: |\n  QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=\nx: 1",
		"psk_key: |\n  " REDACTED "\nx: 1"},
	{"psk_key: QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=", "psk_key: " REDACTED},
	{"sent authorization=Bearer hcXYZ to x", "sent authorization=" REDACTED " to x"},
	{"proxy-authorization=Basic dTpw, to=x", "proxy-authorization=" REDACTED ", to=x"},
	{"tokens: [\"a\", 'b', c]\nx: 1", "tokens: " REDACTED "\nx: 1"},
	{"tokens: # two\n\n  - a b\n# c\n  - d\nx: 1",
		"tokens: # two\n\n  " REDACTED "\n" REDACTED "\n  " REDACTED "\nx: 1"},
	{"proxy: http://me:it's@proxy:3128\n", "proxy: http://" REDACTED "@proxy:3128\n"},
	{"proxy: 'http://me:it''s\"<\\@proxy:3128' # a@b",
		"proxy: 'http://" REDACTED "@proxy:3128' # a@b"},
	{"proxy: http://me:a@b\"c@proxy:3128/x@y", "proxy: http://" REDACTED "@proxy:3128/x@y"},
	{"access lb: request=\"GET /x?sig=a\\\"b c\" status=200",
		"access lb: request=\"GET /x?" REDACTED "\" status=200"},
	{"{\"request\":\"GET /x?sig=ab\",\"status\":200}",
		"{\"request\":\"GET /x?" REDACTED "\",\"status\":200}"},
};

/* Each field may be a key, whatever its name is. */
static const struct sample headers[] = {
	{"tracing:\n  headers: [authorization=Bearer hcXYZ]\n  sample: 1\n",
		"tracing:\n  headers: " REDACTED "\n  sample: 1\n"},
	{"headers: [ x-honeycomb-team=KEY, \"a=b]\", 'it''s]=c',\n  d=e] # f\nx: 1",
		"headers: " REDACTED " # f\nx: 1"},
	{"headers: {x-team: KEY}\n", "headers: " REDACTED "\n"},
	{"headers: x-team=KEY, authorization=Bearer a b\nx: 1", "headers: " REDACTED "\nx: 1"},
	{"headers: [x-team=KEY, no end\nx: 1", "headers: " REDACTED "\nx: 1"},
	{"  headers: \"x-team=KEY,a=Bearer b\"\n  x: 1", "  headers: \"" REDACTED "\"\n  x: 1"},
	{"  headers:\n    - x-team=KEY\n    - 'a=Bearer b'\n  x: 1",
		"  headers:\n    " REDACTED "\n    " REDACTED "\n  x: 1"},
	{"  headers:\n  - x-team=KEY\n  x: 1", "  headers:\n  " REDACTED "\n  x: 1"},
	{"  headers:\n    x-team: KEY\n  x: 1", "  headers:\n    " REDACTED "\n  x: 1"},
	{"headers: >\n  x-team=KEY,\n  a=b\nx: 1",
		"headers: " REDACTED "\n  " REDACTED "\n  " REDACTED "\nx: 1"},
	{"EDGEWAY_TRACING_HEADERS=x-team=KEY,authorization=Bearer a\nEDGEWAY_NODE=n",
		"EDGEWAY_TRACING_HEADERS=" REDACTED "\nEDGEWAY_NODE=n"},
	{"agent --tracing.headers x-team=KEY,authorization=Bearer a --node n",
		"agent --tracing.headers " REDACTED " --node n"},
	{"agent --tracing.headers=x-team=KEY", "agent --tracing.headers=" REDACTED},
	{"{\"headers\":[{\"name\":\"x\",\"value\":\"K]\\\"\"}],\"x\":1}",
		"{\"headers\":\"" REDACTED "\",\"x\":1}"},
	{"{\"text\":\"{\\\"headers\\\":{\\\"x\\\":\\\"K\\\"},\\\"y\\\":1}\"}",
		"{\"text\":\"{\\\"headers\\\":\\\"" REDACTED "\\\",\\\"y\\\":1}\"}"},
};

static void
headers_go(void **state)
{
	(void)state;
	check_all(headers, ARRAY_LEN(headers));
}

static void
secrets_go(void **state)
{
	(void)state;
	check_all(secrets, ARRAY_LEN(secrets));
}

static void
ends_anywhere(const struct sample *samples, size_t n_samples)
{
	for (size_t i = 0; i < n_samples; i++)
		for (size_t n = strlen(samples[i].text); n > 0; n--) {
			auto_free char *piece = xmemdup(samples[i].text, n);
			struct redactor r = {0};
			auto_buf struct buf out;

			buf_init(&out, BUF_UNLIMITED);
			redact(&r, &out, piece, n);
			assert_true(r.removed > 0 ? buf_len(&out) > 0
						  : buf_len(&out) == n &&
						memcmp(buf_at(&out), piece, n) == 0);
			redactor_fini(&r);
		}
}

/* A text may end anywhere, and no NUL stands behind it: the sanitizers see who reads on. */
static void
texts_end_anywhere(void **state)
{
	(void)state;
	ends_anywhere(secrets, ARRAY_LEN(secrets));
	ends_anywhere(headers, ARRAY_LEN(headers));
}

/* A bundle in which nothing can be read helps nobody. */
static void
other_things_stay(void **state)
{
	static const struct sample samples[] = {
		{"", ""},
		{"tokenFile: /etc/edgeway/token\n", "tokenFile: /etc/edgeway/token\n"},
		{"EDGEWAY_HUB_TOKEN_FILE=/a\nhub.token-file: b\nsecretPath: c\n",
			"EDGEWAY_HUB_TOKEN_FILE=/a\nhub.token-file: b\nsecretPath: c\n"},
		{"password: null\ntoken: false\nsecret: ~\npassword:\nx: 1",
			"password: null\ntoken: false\nsecret: ~\npassword:\nx: 1"},
		{"data:\n  key: |\n    some text\n", "data:\n  key: |\n    some text\n"},
		{"tls:\n  key: /etc/edgeway/hub.key\n", "tls:\n  key: /etc/edgeway/hub.key\n"},
		{"{\"tokens\":[{\"uses\":1}],\"secrets\":{},\"token\":null,\"keys\":3,\"secret\":"
		 "false}",
			"{\"tokens\":[{\"uses\":1}],\"secrets\":{},\"token\":null,\"keys\":3,"
			"\"secret\":false}"},
		{"edgeway_hub_services 3\n", "edgeway_hub_services 3\n"},
		{"the key: default/web", "the key: default/web"},
		{"basic authentication", "basic authentication"},
		{"sha256 " HASH " of the CA", "sha256 " HASH " of the CA"},
		{"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
			"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"},
		{"wss://hub.example:10000/x@y", "wss://hub.example:10000/x@y"},
		{"{\"a\":\"to wss://hub:1\",\"b\":\"m@x\"}",
			"{\"a\":\"to wss://hub:1\",\"b\":\"m@x\"}"},
		{"headersFile: /etc/h\nheaders: []\n\nheaders:\nx: 1\nheaders: null",
			"headersFile: /etc/h\nheaders: []\n\nheaders:\nx: 1\nheaders: null"},
		{"{\"headers\":3,\"x\":{}}", "{\"headers\":3,\"x\":{}}"},
		{"request=\"GET /x\" a request: why? because",
			"request=\"GET /x\" a request: why? because"},
	};

	(void)state;
	check_all(samples, ARRAY_LEN(samples));
}

/* What the configuration calls a password is one in the log as well. */
static void
what_was_seen_is_known(void **state)
{
	struct redactor r = {0};

	(void)state;
	redacted(&r, "proxy: http://me:Tr0ub4dor&3@proxy:3128\npassword: short1\n");
	assert_string_equal(
		redacted(&r, "407 for Tr0ub4dor&3, short1"), "407 for " REDACTED ", short1");
	redacted(&r, "password: /Ab3-x9Z1\ntoken: |\n  in-A-Block\n");
	assert_string_equal(
		redacted(&r, "sent /Ab3-x9Z1 and in-A-Block"), "sent " REDACTED " and " REDACTED);
	redacted(&r, "headers: [x-honeycomb-team=hcaik_01h, authorization=Bearer 'Zx9-abcdef']\n");
	assert_string_equal(redacted(&r, "401 for hcaik_01h, not Zx9-abcdef"),
		"401 for " REDACTED ", not " REDACTED);
	redacted(&r, "token: expected something\n");
	assert_string_equal(redacted(&r, "expected something"), "expected something");
	redactor_fini(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_go),
		cmocka_unit_test(headers_go),
		cmocka_unit_test(texts_end_anywhere),
		cmocka_unit_test(other_things_stay),
		cmocka_unit_test(what_was_seen_is_known),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
