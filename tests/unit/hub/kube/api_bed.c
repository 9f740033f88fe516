#include "tests/unit/hub/kube/api_bed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/sock.h"

static char *made[API_ANSWERS * 4];
static size_t n_made;

char *
api_recording(const char *name, size_t *len)
{
	const char *top = getenv("top_srcdir");
	auto_free char *path =
		xasprintf("%s/tests/data/kubernetes/%s.resp", top != NULL ? top : ".", name);
	char *text;

	assert_int_equal(file_read(path, 1 << 20, &text, len), 0);
	return text;
}

char *
api_json(int status, const char *body)
{
	return xasprintf(
		"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
		status, strlen(body), body);
}

static const char *
keep(char *text)
{
	assert_true(n_made < ARRAY_LEN(made));
	return made[n_made++] = text;
}

void
api_say(struct api_bed *b, struct said said)
{
	assert_true(b->n_says < API_ANSWERS);
	b->says[b->n_says++] = said;
}

void
api_say_recorded(struct api_bed *b, const char *name, size_t piece)
{
	struct said said = {.piece = piece};

	said.text = keep(api_recording(name, &said.len));
	api_say(b, said);
}

void
api_say_json(struct api_bed *b, int status, const char *body)
{
	const char *text = keep(api_json(status, body));

	api_say(b, (struct said){.text = text, .len = strlen(text)});
}

static void
close_peer(struct api_bed *b)
{
	if (b->peer >= 0)
		close(b->peer);
	b->peer = -1;
	b->answering = false;
	buf_consume(&b->in, buf_len(&b->in));
}

static void
take_peer(struct api_bed *b)
{
	int fd = accept4(b->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (b->answering && b->at < b->n_says)
		b->at++; /* the client did not want the rest of it */
	close_peer(b);
	b->peer = fd;
	sock_nodelay(fd);
}

static void
take_request(struct api_bed *b)
{
	const char *text, *end;
	ssize_t n;

	while ((n = buf_read(&b->in, b->peer, 65536)) > 0)
		;
	if (n == 0 && buf_len(&b->in) == 0) {
		close_peer(b);
		return;
	}
	text = buf_str(&b->in);
	end = strstr(text, "\r\n\r\n");
	if (end == NULL)
		return;
	assert_true(b->n_requests < API_ANSWERS);
	snprintf(b->requests[b->n_requests++], sizeof b->requests[0], "%.*s",
		(int)strcspn(text, "\r"), text);
	buf_consume(&b->in, (size_t)(end + 4 - text));
	b->answering = true;
	b->sent = 0;
}

static void
answer(struct api_bed *b)
{
	const struct said *s = &b->says[b->at];
	size_t n;
	ssize_t done;

	if (b->at == b->n_says)
		return; /* nothing more was written down: silence */
	n = s->len - b->sent;
	if (s->border > b->sent)
		n = s->border - b->sent;
	else if (s->piece > 0)
		n = MIN(n, s->piece);
	done = n > 0 ? send(b->peer, s->text + b->sent, n, MSG_NOSIGNAL) : 0;
	if (done < 0 && errno != EAGAIN) {
		b->at++;
		close_peer(b);
		return;
	}
	b->sent += done > 0 ? (size_t)done : 0;
	if (b->sent < s->len)
		return;
	if (s->hold) {
		b->at = b->n_says; /* until the client gives up */
		b->answering = false;
		return;
	}
	b->at++;
	b->answering = false;
	if (s->cut)
		close_peer(b);
}

void
api_turn(struct api_bed *b)
{
	size_t n;

	take_peer(b);
	if (b->peer >= 0 && b->answering)
		answer(b);
	else if (b->peer >= 0)
		take_request(b);
	patience_turn(b->loop);
	n = cluster_count(b->cluster, b->kind);
	if (n < b->least)
		b->least = n;
}

static void
nothing(void *arg)
{
	(void)arg;
}

void
api_begin(struct api_bed *b, enum kube_kind kind, uint64_t silence_ms)
{
	static const char *const names[] = {"services", "pods", "endpointslices", "endpoints",
		"nodes", [KUBE_TLS_POLICY] = "backendtlspolicies"};
	const struct reflector_config config = {
		.loop = b->loop,
		.api = b->api,
		.cluster = b->cluster,
		.resource = names[kind],
		.group = kind == KUBE_SLICE ? "discovery.k8s.io" : "",
		.optional = kind == KUBE_TLS_POLICY,
		.select = "",
		.kind = kind,
		.silence_ms = silence_ms,
		.backoff_ms = 1,
		.changed = nothing,
	};

	b->kind = kind;
	b->least = SIZE_MAX;
	b->reflector = reflector_start(&config);
}

void
api_reset(struct api_bed *b)
{
	reflector_stop(&b->reflector);
	cluster_free(&b->cluster);
	b->cluster = cluster_new();
	close_peer(b);
	b->n_says = b->at = b->n_requests = 0;
	while (n_made > 0)
		free(made[--n_made]);
	loop_turn(b->loop);
}

int
api_setup(void **state)
{
	struct api_bed *b = xcalloc(1, sizeof *b);
	auto_free char *path = NULL, *text = NULL;
	struct addr addr = addr_ipv4(INADDR_LOOPBACK, 0);
	struct err err = {0};

	snprintf(b->dir, sizeof b->dir, "/tmp/ew-api-XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	assert_int_equal(loop_new(&b->loop, &err), 0);
	assert_int_equal(sock_listen(&addr, 0, &b->listener, &err), 0);
	assert_int_equal(getsockname(b->listener, &addr.sa, &addr.len), 0);
	path = xasprintf("%s/kubeconfig", b->dir);
	text = xasprintf("current-context: t\ncontexts: [{name: t, context: {cluster: c}}]\n"
			 "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:%u'}}]\n",
		addr_port(&addr));
	assert_int_equal(file_write(path, text, strlen(text), 0600), 0);
	if (kube_api_open(&b->api, b->loop, path, &err) < 0)
		fail_msg("%s", err.text);
	b->cluster = cluster_new();
	b->peer = -1;
	buf_init(&b->in, 65536);
	*state = b;
	return 0;
}

int
api_teardown(void **state)
{
	struct api_bed *b = *state;
	auto_free char *path = xasprintf("%s/kubeconfig", b->dir);

	api_reset(b);
	cluster_free(&b->cluster);
	kube_api_close(&b->api);
	close(b->listener);
	loop_free(&b->loop);
	buf_fini(&b->in);
	unlink(path);
	rmdir(b->dir);
	free(b);
	return 0;
}
