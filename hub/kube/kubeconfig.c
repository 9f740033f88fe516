#include "hub/kube/kubeconfig.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/conf/tree.h"
#include "base/core/base64.h"
#include "base/core/sock.h"

enum { FILE_MAX = 1 << 20 };

/* The state of reading one kubeconfig. */
struct reading {
	const char *path;
	char *folder; /* relative names in it start here */
	struct https_peer *peer;
	struct err *err;
};

void
kubeconfig_peer_fini(struct https_peer *peer)
{
	free(peer->server);
	free(peer->ca);
	free(peer->cert);
	/* Overwritten, so that it cannot be found in reused memory. */
	if (peer->key != NULL)
		explicit_bzero(peer->key, strlen(peer->key));
	if (peer->token != NULL)
		explicit_bzero(peer->token, strlen(peer->token));
	free(peer->key);
	free(peer->token);
	free(peer->tls_name);
	free(peer->proxy);
	free(peer->ns);
	*peer = (struct https_peer){0};
}

/* --- checks for both sources ---------------------------------------------------------------- */

static int
read_text(const char *path, char **text, struct err *err)
{
	int rc;

	free(take_ptr(text));
	rc = file_read(path, FILE_MAX, text, NULL);
	if (rc < 0) {
		*text = xstrdup("");
		return err_set(err, rc, "cannot read %s: %s", path, strerror(-rc));
	}
	return 0;
}

/* Removes trailing blanks, which editors and shells add. */
static int
check_token(char *token, const char *where, struct err *err)
{
	size_t len = strlen(token);

	while (len > 0 && strchr(" \t\r\n", token[len - 1]) != NULL)
		token[--len] = '\0';
	if (len == 0 || len > HTTPS_TOKEN_MAX)
		return err_set(err, EINVAL, "%s: the token is empty or too long", where);
	for (size_t i = 0; i < len; i++) {
		if (token[i] <= ' ' || token[i] > '~')
			return err_set(err, EINVAL,
				"%s: the token has a blank or another byte that no token has",
				where);
	}
	return 0;
}

static bool
is_loopback_url(const char *url)
{
	const char *host = strstr(url, "://") + 3;
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t len = strlen(names[i]);

		if (strncmp(host, names[i], len) == 0 && strchr(":/", host[len]) != NULL)
			return true;
	}
	return false;
}

/* https://HOST[:PORT][/PREFIX] without a trailing slash; plain http only to a proxy on this
 * machine. */
static int
check_server(char *url, const char *where, struct err *err)
{
	size_t len = strlen(url);

	if (strncmp(url, "https://", 8) != 0 &&
		(strncmp(url, "http://", 7) != 0 || !is_loopback_url(url)))
		return err_set(
			err, EINVAL, "%s: server \"%.200s\" is not https://HOST:PORT", where, url);
	while (len > 0 && url[len - 1] == '/')
		url[--len] = '\0';
	if (len < 9 || strcspn(url, " \t\r\n@?#\\\"") != len)
		return err_set(
			err, EINVAL, "%s: server \"%.200s\" is not https://HOST:PORT", where, url);
	return 0;
}

/* --- of a pod ------------------------------------------------------------------------------- */

static int
read_pod(struct https_peer *peer, struct err *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	static const char token[] = KUBECONFIG_POD_FOLDER "/token";
	bool v6 = host != NULL && strchr(host, ':') != NULL;
	int rc;

	if (host == NULL || port == NULL || host[0] == '\0' || port[0] == '\0')
		return err_set(err, EINVAL,
			"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is "
			"no pod; set "
			"source.kubernetes.kubeconfig to a file");
	free(peer->server);
	peer->server = xasprintf("https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
	if ((rc = check_server(peer->server, "KUBERNETES_SERVICE_HOST", err)) < 0 ||
		(rc = read_text(KUBECONFIG_POD_FOLDER "/ca.crt", &peer->ca, err)) < 0 ||
		(rc = read_text(token, &peer->token, err)) < 0)
		return err_wrap(err, rc,
			"the service account of this pod (automountServiceAccountToken must not be "
			"false)");
	/* An error is ignored here: whoever needs the namespace reports it. */
	if (read_text(KUBECONFIG_POD_FOLDER "/namespace", &peer->ns, NULL) == 0)
		peer->ns[strcspn(peer->ns, " \t\r\n")] = '\0';
	return check_token(peer->token, token, err);
}

/* --- of a file ------------------------------------------------------------------------------ */

static int printf_like(3, 4) kubeconfig_complain(
	const struct reading *r, const struct tree_node *at, const char *fmt, ...)
{
	char what[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	return err_set(r->err, EINVAL, "%.200s:%u: %s", r->path, at != NULL ? at->line : 1, what);
}

/* Reads the PEM text of KEY-data (base64, decoded in place), else of the file that KEY names, into
 * *to. */
static int
take_pem(const struct reading *r, const struct tree_node *map, const char *key, char **to)
{
	auto_free char *data_key = xasprintf("%s-data", key);
	const struct tree_node *data = tree_get(map, data_key), *file = tree_get(map, key);
	const char *name = tree_text(file, "");
	auto_free char *path = NULL;
	struct err err = {0};

	if (tree_text(data, "")[0] != '\0') {
		free(*to);
		*to = base64_text(tree_text(data, ""));
		if (*to == NULL || strstr(*to, "-----BEGIN ") == NULL) {
			free(*to);
			*to = xstrdup("");
			return kubeconfig_complain(r, data, "%s is not PEM in base64", data_key);
		}
		return 0;
	}
	if (name[0] == '\0')
		return 0;
	path = name[0] == '/' ? xstrdup(name) : xasprintf("%s%s", r->folder, name);
	if (read_text(path, to, &err) < 0)
		return kubeconfig_complain(r, file, "%s: %.300s", key, err.text);
	if (strstr(*to, "-----BEGIN ") == NULL)
		return kubeconfig_complain(r, file, "%s: %.200s is not PEM", key, path);
	return 0;
}

static int
take_cluster(const struct reading *r, const struct tree_node *cluster)
{
	const struct tree_node *insecure = tree_get(cluster, "insecure-skip-tls-verify");
	const struct tree_node *server = tree_get(cluster, "server");
	struct https_peer *peer = r->peer;
	char where[300];

	if (tree_bool(insecure, false))
		return kubeconfig_complain(r, insecure,
			"insecure-skip-tls-verify: anybody could be the API server; give its "
			"certificate-authority instead");
	snprintf(where, sizeof where, "%.200s:%u", r->path, server != NULL ? server->line : 1);
	free(peer->server);
	peer->server = xstrdup(tree_text(server, ""));
	free(peer->tls_name);
	peer->tls_name = xstrdup(tree_text(tree_get(cluster, "tls-server-name"), ""));
	free(peer->proxy);
	peer->proxy = xstrdup(tree_text(tree_get(cluster, "proxy-url"), ""));
	if (strcspn(peer->tls_name, " /:@?#\r\n") != strlen(peer->tls_name))
		return kubeconfig_complain(r, tree_get(cluster, "tls-server-name"),
			"tls-server-name \"%.100s\" is no name", peer->tls_name);
	if (check_server(peer->server, where, r->err) < 0)
		return -EINVAL;
	return take_pem(r, cluster, "certificate-authority", &peer->ca);
}

static int
refuse_user(const struct reading *r, const struct tree_node *user)
{
	static const struct {
		const char *key, *why;
	} refused[] = {
		{"exec", "credential plugins are programs, and the hub runs none"},
		{"auth-provider", "credential plugins are not supported"},
		{"username", "Kubernetes knows no passwords since 1.19"},
		{"as", "the hub acts as itself"},
		{"as-uid", "the hub acts as itself"},
		{"as-groups", "the hub acts as itself"},
	};

	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		const struct tree_node *n = tree_get(user, refused[i].key);

		if (!tree_is_null(n))
			return kubeconfig_complain(r, n,
				"%s: %s; give the hub a token, tokenFile or client-certificate of "
				"a "
				"service account of its own",
				refused[i].key, refused[i].why);
	}
	return 0;
}

static int
take_user(const struct reading *r, const struct tree_node *user)
{
	const struct tree_node *file = tree_get(user, "tokenFile"),
			       *token = tree_get(user, "token");
	const char *name = tree_text(file, "");
	struct https_peer *peer = r->peer;
	char where[300];
	int rc;

	if ((rc = refuse_user(r, user)) < 0 ||
		(rc = take_pem(r, user, "client-certificate", &peer->cert)) < 0 ||
		(rc = take_pem(r, user, "client-key", &peer->key)) < 0)
		return rc;
	if ((peer->cert[0] == '\0') != (peer->key[0] == '\0'))
		return kubeconfig_complain(
			r, user, "client-certificate and client-key: give both or neither");
	if (name[0] != '\0') {
		auto_free char *path =
			name[0] == '/' ? xstrdup(name) : xasprintf("%s%s", r->folder, name);

		if ((rc = read_text(path, &peer->token, r->err)) < 0)
			return rc;
		return check_token(peer->token, path, r->err);
	}
	if (tree_text(token, "")[0] == '\0')
		return 0;
	free(peer->token);
	peer->token = xstrdup(tree_text(token, ""));
	snprintf(where, sizeof where, "%.200s:%u", r->path, token->line);
	return check_token(peer->token, where, r->err);
}

/* Finds the entry NAME in a list of {name, <what>: {...}}. */
static const struct tree_node *
find_named(const struct tree_node *top, const char *list, const char *what, const char *name)
{
	tree_each(tree_get(top, list), n) {
		if (strcmp(tree_text(tree_get(n, "name"), ""), name) == 0)
			return tree_get(n, what);
	}
	return NULL;
}

static int
read_file(const struct reading *r, const struct tree_node *top)
{
	const struct tree_node *current = tree_get(top, "current-context"), *context, *cluster,
			       *user;
	const char *name = tree_text(current, "");
	int rc;

	if (name[0] == '\0')
		return kubeconfig_complain(
			r, top, "no current-context; kubectl config use-context NAME sets it");
	context = find_named(top, "contexts", "context", name);
	if (context == NULL)
		return kubeconfig_complain(r, current, "there is no context \"%.100s\"", name);
	cluster =
		find_named(top, "clusters", "cluster", tree_text(tree_get(context, "cluster"), ""));
	if (cluster == NULL)
		return kubeconfig_complain(r, context, "there is no cluster \"%.100s\"",
			tree_text(tree_get(context, "cluster"), ""));
	if ((rc = take_cluster(r, cluster)) < 0)
		return rc;
	free(r->peer->ns);
	r->peer->ns = xstrdup(tree_text(tree_get(context, "namespace"), ""));
	name = tree_text(tree_get(context, "user"), "");
	user = find_named(top, "users", "user", name);
	if (user == NULL && name[0] != '\0')
		return kubeconfig_complain(r, context, "there is no user \"%.100s\"", name);
	return user != NULL ? take_user(r, user) : 0;
}

static int
read_path(struct https_peer *peer, const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	auto_free char *folder = xstrndup(path, slash != NULL ? (size_t)(slash + 1 - path) : 0);
	auto_free char *text = NULL;
	struct reading r = {.path = path, .folder = folder, .peer = peer, .err = err};
	struct tree *tree = NULL;
	size_t len;
	int rc = file_read(path, FILE_MAX, &text, &len);

	if (rc < 0)
		return err_set(err, rc, "cannot read the kubeconfig %s: %s", path, strerror(-rc));
	if ((rc = tree_parse(&tree, path, text, len, err)) < 0)
		return rc;
	if (tree_count(tree) != 1)
		rc = err_set(err, EINVAL, "%s:1: one kubeconfig expected", path);
	else
		rc = read_file(&r, tree_document(tree, 0));
	tree_free(&tree);
	return rc;
}

int
kubeconfig_read(struct https_peer *peer, const char *path, struct err *err)
{
	int rc;

	*peer = (struct https_peer){
		.server = xstrdup(""),
		.ca = xstrdup(""),
		.cert = xstrdup(""),
		.key = xstrdup(""),
		.token = xstrdup(""),
		.tls_name = xstrdup(""),
		.proxy = xstrdup(""),
		.ns = xstrdup(""),
	};
	rc = path[0] == '\0' ? read_pod(peer, err) : read_path(peer, path, err);
	if (rc < 0)
		kubeconfig_peer_fini(peer);
	return rc;
}
