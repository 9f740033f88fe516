/* Credentials: what a kubeconfig may say, and what is refused with file and line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hub/kube/kubeconfig.h"

#define PEM "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
#define PEM64 "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
#define CONFIG(cluster, user)                                                                      \
	"apiVersion: v1\nkind: Config\ncurrent-context: here\npreferences: {}\n"                   \
	"contexts:\n- name: there\n  context: {cluster: none}\n"                                   \
	"- name: here\n  context: {cluster: lab, user: hub, namespace: x}\n"                       \
	"clusters:\n- name: lab\n  cluster:\n" cluster "users:\n- name: hub\n  user:\n" user
#define SERVER "    server: https://192.0.2.2:6443/\n"

static char dir[64], path[128];

static void
write_in(const char *name, const char *text)
{
	auto_free char *to = xasprintf("%s/%s", dir, name);

	assert_int_equal(file_write(to, text, strlen(text), 0600), 0);
}

static struct https_peer
takes(const char *text)
{
	struct https_peer peer;
	struct err err = {0};

	write_in("config", text);
	if (kubeconfig_read(&peer, path, &err) < 0)
		fail_msg("%s", err.text);
	return peer;
}

static void
refuses(const char *text, const char *why)
{
	struct https_peer peer;
	struct err err = {0};

	write_in("config", text);
	assert_true(kubeconfig_read(&peer, path, &err) < 0);
	if (strstr(err.text, why) == NULL)
		fail_msg("\"%s\" without \"%s\"", err.text, why);
	assert_null(peer.server);
}

static void
data_in_place(void **state)
{
	struct https_peer peer = takes(CONFIG(SERVER
		"    certificate-authority-data: " PEM64 "\n"
		"    tls-server-name: kubernetes\n    proxy-url: http://192.0.2.9:3128\n",
		"    client-certificate-data: " PEM64 "\n    client-key-data: " PEM64
		"\n    token: abc\n"));

	(void)state;
	assert_string_equal(peer.server, "https://192.0.2.2:6443");
	assert_string_equal(peer.ca, PEM);
	assert_string_equal(peer.cert, PEM);
	assert_string_equal(peer.key, PEM);
	assert_string_equal(peer.token, "abc");
	assert_string_equal(peer.tls_name, "kubernetes");
	assert_string_equal(peer.proxy, "http://192.0.2.9:3128");
	kubeconfig_peer_fini(&peer);
}

/* Names in it begin at its own folder; tokenFile wins over token. */
static void
data_in_files(void **state)
{
	struct https_peer peer;

	(void)state;
	write_in("ca.crt", PEM);
	write_in("token", "from-the-file\n");
	peer = takes(CONFIG(SERVER "    certificate-authority: ca.crt\n",
		"    tokenFile: token\n    token: abc\n"));
	assert_string_equal(peer.ca, PEM);
	assert_string_equal(peer.token, "from-the-file");
	kubeconfig_peer_fini(&peer);
	peer = takes("{\"current-context\":\"c\",\"contexts\":[{\"name\":\"c\",\"context\":{"
		     "\"cluster\":\"c\"}}],"
		     "\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"http://"
		     "localhost:8001\"}}]}");
	assert_string_equal(peer.server, "http://localhost:8001");
	kubeconfig_peer_fini(&peer);
}

static void
refusals(void **state)
{
	(void)state;
	refuses(CONFIG(SERVER, "    exec: {command: aws}\n"),
		"config:17: exec: credential plugins are programs");
	refuses(CONFIG(SERVER, "    auth-provider: {name: gcp}\n"), "config:17: auth-provider:");
	refuses(CONFIG(SERVER, "    username: admin\n    password: x\n"), "config:17: username:");
	refuses(CONFIG(SERVER, "    as: admin\n"), "config:17: as:");
	refuses(CONFIG(SERVER "    insecure-skip-tls-verify: true\n", "    token: a\n"),
		"config:14: insecure-skip-tls-verify: anybody");
	refuses(CONFIG("    server: http://192.0.2.2:6443\n", "    token: a\n"),
		"config:13: server");
	refuses(CONFIG("    server: http://localhost.evil:1\n", "    token: a\n"), "is not https");
	refuses(CONFIG("    server: https://a@b\n", "    token: a\n"), "is not https");
	refuses(CONFIG("    server: https://\n", "    token: a\n"), "is not https");
	refuses(CONFIG("    x: y\n", "    token: a\n"), "is not https");
	refuses(CONFIG(SERVER "    tls-server-name: a/b\n", "    token: a\n"),
		"config:14: tls-server-name");
	refuses(CONFIG(SERVER "    certificate-authority-data: '!!'\n", "    token: a\n"),
		"not PEM in base64");
	refuses(CONFIG(SERVER "    certificate-authority: nowhere\n", "    token: a\n"),
		"config:14: certificate-authority: cannot read");
	refuses(CONFIG(SERVER, "    client-certificate-data: " PEM64 "\n"), "give both or neither");
	refuses(CONFIG(SERVER, "    token: 'a b'\n"), "config:17: the token has a blank");
	refuses(CONFIG(SERVER, "    tokenFile: nowhere\n"), "nowhere: No such file");
	refuses("clusters: []\n", "config:1: no current-context");
	refuses("current-context: x\n", "config:1: there is no context \"x\"");
	refuses("current-context: x\ncontexts: [{name: x, context: {cluster: y}}]\n",
		"there is no cluster \"y\"");
	refuses("", "one kubeconfig expected");
	refuses("a: [", "config:");
}

static void
of_a_pod(void **state)
{
	struct https_peer peer;
	struct err err = {0};

	(void)state;
	unsetenv("KUBERNETES_SERVICE_HOST");
	assert_true(kubeconfig_read(&peer, "", &err) < 0);
	assert_non_null(strstr(err.text, "this is no pod; set source.kubernetes.kubeconfig"));
}

static int
setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof dir, "/tmp/ew-kubeconfig-XXXXXX");
	snprintf(path, sizeof path, "%s/config", mkdtemp(dir));
	return 0;
}

static int
teardown(void **state)
{
	static const char *const names[] = {"config", "ca.crt", "token"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_free char *gone = xasprintf("%s/%s", dir, names[i]);

		unlink(gone);
	}
	return rmdir(dir);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_in_place),
		cmocka_unit_test(data_in_files),
		cmocka_unit_test(refusals),
		cmocka_unit_test(of_a_pod),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
