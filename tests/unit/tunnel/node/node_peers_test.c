/* Two nodes' agents: one dials (node_peers), the other one's door (node_door). */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/log.h"
#include "base/http/frame_budget.h"
#include "base/os/addresses.h"
#include "base/tls/pki.h"
#include "model/view.h"
#include "tests/fake/clock.h"
#include "tests/unit/patience.h"
#include "tunnel/h2/session_private.h"
#include "tunnel/node/floods.h"
#include "tunnel/node/node_door.h"

struct bed {
	struct loop *loop;
	struct addresses *addresses;
	struct stream_server *serve;
	struct node_peers *peers; /* of edge-1 */
	struct node_door *door; /* of edge-2 */
	struct node_peers_wait wait;
	struct addr at;
	char *ca, *ca_key;
	const char *revoked; /* a node */
	bool again; /* who is told asks once more */
	unsigned told, silences;
};

static struct ssl_ctx_st *
ctx_of(const struct bed *b, const char *name, bool server, bool hub)
{
	struct pki_issue issue = {.ca_cert_pem = b->ca,
		.ca_key_pem = b->ca_key,
		.common_name = name,
		.client = true,
		.server = hub,
		.hub = hub,
		.days = 1};
	auto_free char *key = NULL, *cert = NULL;
	struct ssl_ctx_st *ctx;

	assert_int_equal(pki_key_new(&key, NULL), 0);
	assert_int_equal(pki_sign_key(&issue, key, &cert, NULL), 0);
	assert_int_equal(pki_node_ctx(server, b->ca, cert, key, &ctx, NULL), 0);
	return ctx;
}

static void
certify(struct bed *b, const char *peer, const char *door, bool hub)
{
	struct ssl_ctx_st *client = ctx_of(b, peer, false, hub),
			  *server = ctx_of(b, door, true, false);

	node_peers_use(b->peers, client);
	node_door_use(b->door, server);
	pki_ctx_free(&client);
	pki_ctx_free(&server);
}

static const char *
on_refuses(void *arg, const char *node, const char *serial)
{
	const struct bed *b = arg;

	assert_true(serial[0] != '\0');
	return b->revoked != NULL && strcmp(b->revoked, node) == 0 ? "revoked" : NULL;
}

static void
on_addresses(void *arg)
{
	(void)arg;
}

static void
on_silent(void *arg)
{
	((struct bed *)arg)->silences++;
}

static struct session *
ask(struct bed *b, bool urgent)
{
	return node_peers_session(b->peers,
		&(struct node_peers_ask){
			.node = "edge-2", .at = b->at, .urgent = urgent, .wait = &b->wait});
}

static void
on_told(void *arg)
{
	struct bed *b = arg;

	b->told++;
	if (b->again && !node_peers_waits(&b->wait))
		ask(b, true);
}

static int
set_up(void **state)
{
	static const char *const allow[] = {"services", NULL}, *const none[] = {NULL};
	struct bed *b = xcalloc(1, sizeof *b);
	struct stream_server_config serve = {.node = "edge-2", .allow = allow, .bridges = none};

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(loop_new(&b->loop, NULL), 0);
	assert_int_equal(pki_ca_new("CA", 1, &b->ca, &b->ca_key, NULL), 0);
	/* not one that the kernel gives to others' connections meanwhile */
	b->at = addr_ipv4(INADDR_LOOPBACK, (uint16_t)(10000 + getpid() % 20000));
	b->addresses = addresses_new(b->loop, on_addresses, b);
	serve.loop = b->loop;
	serve.addresses = b->addresses;
	assert_int_equal(stream_server_new(&serve, &b->serve, NULL), 0);
	b->wait = (struct node_peers_wait){.done = on_told, .arg = b};
	b->peers = node_peers_new(&(struct node_peers_config){.loop = b->loop,
		.heartbeat_ms = 4000,
		.refuses = on_refuses,
		.silent = on_silent,
		.arg = b});
	b->door = node_door_new(&(struct node_door_config){.loop = b->loop,
		.node = "edge-2",
		.port = addr_port(&b->at),
		.heartbeat_ms = 4000,
		.serve = b->serve,
		.refuses = on_refuses,
		.arg = b});
	*state = b;
	return 0;
}

static int
tear_down(void **state)
{
	struct bed *b = *state;

	node_peers_leave(&b->wait);
	node_peers_free(&b->peers);
	node_door_free(&b->door);
	stream_server_free(&b->serve);
	addresses_free(&b->addresses);
	loop_free(&b->loop);
	free(b->ca);
	free(b->ca_key);
	free(b);
	return 0;
}

#define until(b, condition) patience_until(patience_turn((b)->loop), condition)

static void
pass(struct bed *b, unsigned seconds)
{
	for (unsigned s = 0; s < seconds; s++) {
		clock_pass(1000 * 1000);
		for (int i = 0; i < 40; i++)
			patience_turn(b->loop);
	}
}

static unsigned
sessions(const struct bed *b)
{
	return (unsigned)node_door_sum(b->door).sessions;
}

static void
opened_on_need_and_closed_when_idle(void **state)
{
	struct bed *b = *state;
	struct session *s;

	certify(b, "edge-1", "edge-2", false);
	assert_null(ask(b, false));
	assert_true(node_peers_waits(&b->wait));
	until(b, b->told == 1);
	s = ask(b, false);
	assert_non_null(s);
	assert_false(node_peers_waits(&b->wait));
	until(b, session_is_settled(s) && sessions(b) == 1);
	pass(b, 50);
	assert_ptr_equal(ask(b, false), s); /* still the same one */
	pass(b, 50);
	assert_int_equal(sessions(b), 1);
	until(b, (pass(b, 1), sessions(b) == 0));
	assert_int_equal(node_peers_sum(b->peers).sessions, 0);
	assert_string_equal(node_peers_why(b->peers, "edge-2"), "");
}

/* The first caller waits for the outcome, the next ones have another way. */
static void
remembered_when_out_of_reach(void **state)
{
	struct bed *b = *state;
	struct ssl_ctx_st *tls = ctx_of(b, "edge-1", false, false);

	node_peers_use(b->peers, tls); /* edge-2 does not listen */
	assert_null(ask(b, false));
	until(b, !node_peers_waits(&b->wait));
	assert_string_not_equal(node_peers_why(b->peers, "edge-2"), "");
	assert_null(ask(b, false));
	assert_false(node_peers_waits(&b->wait));
	clock_pass((NODE_PEERS_FIRST_MS + 1) * 1000);
	certify(b, "edge-1", "edge-2", false);
	assert_null(ask(b, false)); /* it is dialled beside */
	assert_false(node_peers_waits(&b->wait));
	until(b, ask(b, false) != NULL);
	assert_string_equal(node_peers_why(b->peers, "edge-2"), "");
	pki_ctx_free(&tls);
}

/* Without another way each caller waits; one who asks again when told does so once a dial. */
static void
urgent_callers_wait_again(void **state)
{
	struct bed *b = *state;

	b->again = true;
	certify(b, "edge-1", "edge-3", false); /* a failure that comes after a while */
	until(b, (node_peers_waits(&b->wait) || ask(b, true) == NULL) && b->told >= 3);
	assert_string_equal(
		node_peers_why(b->peers, "edge-2"), "the certificate there is another node's");
	b->again = false;
}

static void
another_node_at_its_address(void **state)
{
	struct bed *b = *state;

	certify(b, "edge-1", "edge-3", false);
	ask(b, false);
	until(b, b->told == 1);
	assert_null(ask(b, false));
	assert_string_equal(
		node_peers_why(b->peers, "edge-2"), "the certificate there is another node's");
}

static void
no_hub_no_twin_gets_in(void **state)
{
	static const struct {
		const char *name;
		bool hub;
	} cases[] = {{"edge-2", false}, {"hub", true}};
	struct bed *b = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		certify(b, cases[i].name, "edge-2", cases[i].hub);
		clock_pass(70 * 1000 * 1000);
		ask(b, true);
		until(b, node_peers_why(b->peers, "edge-2")[0] != '\0');
		assert_int_equal(sessions(b), 0);
		node_peers_leave(&b->wait);
	}
}

static void
revoked_nodes_are_cut(void **state)
{
	struct bed *b = *state;

	certify(b, "edge-1", "edge-2", false);
	ask(b, false);
	until(b, b->told == 1 && sessions(b) == 1);
	b->revoked = "edge-1";
	node_door_check(b->door);
	assert_int_equal(sessions(b), 0);
	b->revoked = NULL;
	until(b, ask(b, true) != NULL && sessions(b) == 1);
	b->revoked = "edge-2";
	node_peers_check(b->peers);
	assert_int_equal(node_peers_sum(b->peers).sessions, 0);
	until(b, sessions(b) == 0);
	ask(b, true);
	until(b, strstr(node_peers_why(b->peers, "edge-2"), "revoked") != NULL);
}

static unsigned
retry_ms(const struct bed *b)
{
	auto_buf struct buf out;
	const char *comma = "", *at;
	unsigned ms = 0;

	buf_init(&out, BUF_UNLIMITED);
	node_peers_state(b->peers, &comma, &out);
	at = memmem(buf_at(&out), buf_len(&out), "\"retry_ms\":", 11);
	if (at != NULL)
		ms = (unsigned)strtoul(at + 11, NULL, 10);
	return ms;
}

/* In TLS 1.3 the dialler has done before the door judges its certificate. */
static void
a_door_that_refuses_is_dialled_less_and_less(void **state)
{
	struct bed *b = *state;

	certify(b, "edge-1", "edge-2", false);
	b->revoked = "edge-1";
	until(b, (ask(b, true), retry_ms(b) > 4 * NODE_PEERS_FIRST_MS));
	node_peers_leave(&b->wait);
	assert_int_equal(sessions(b), 0);
}

/* A session that uses the former certificate finishes; new streams have another one. */
static void
another_certificate(void **state)
{
	struct bed *b = *state;
	struct session *s;

	certify(b, "edge-1", "edge-2", false);
	ask(b, false);
	until(b, b->told == 1);
	s = ask(b, false);
	until(b, session_is_settled(s));
	certify(b, "edge-1", "edge-2", false);
	assert_null(ask(b, false));
	until(b, ask(b, false) != NULL);
	until(b, sessions(b) == 1);
}

/* The dial borrows the TLS context until its TCP connection is up. */
static void
another_certificate_during_a_dial(void **state)
{
	struct bed *b = *state;

	certify(b, "edge-1", "edge-2", false);
	ask(b, false);
	certify(b, "edge-1", "edge-2", false);
	until(b, b->told == 1);
	assert_non_null(ask(b, false));
}

static void
an_expired_certificate(void **state)
{
	struct bed *b = *state;
	struct session *s;

	certify(b, "edge-1", "edge-2", false);
	ask(b, false);
	until(b, b->told == 1 && sessions(b) == 1);
	s = ask(b, false);
	assert_non_null(s);
	until(b, session_is_settled(s));
	clock_pass(2ULL * 24 * 3600 * 1000 * 1000);
	assert_null(ask(b, false));
}

/* --- streams -------------------------------------------------------------------------------- */

enum { ASKERS = 256 }; /* enough of them hold more than NODE_PEERS_MEMORY */

/* One who asks for a stream, and then does not read. */
struct asker {
	struct stream *stream;
	unsigned status, code; /* the answer, or the code of the reset */
};

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	(void)reason;
	((struct asker *)arg)->status = status;
}

static void
on_asker_reset(void *arg, unsigned code)
{
	((struct asker *)arg)->code = code;
}

/* What the door's node says without end: its stream is the argument. */
static void
on_room(void *arg)
{
	static const char bytes[STREAM_OUT_BYTES];
	size_t n;

	while ((n = stream_room(arg)) > 0)
		stream_write(arg, bytes, n);
}

static void
on_served_reset(void *arg, unsigned code)
{
	struct stream *st = arg;

	stream_close(&st, code);
}

unsigned __real_stream_server_peer_opened(struct stream_server *s, const char *node,
	struct stream *st, const struct stream_request *request, const char **reason);
unsigned __wrap_stream_server_peer_opened(struct stream_server *s, const char *node,
	struct stream *st, const struct stream_request *request, const char **reason);

unsigned
__wrap_stream_server_peer_opened(struct stream_server *s, const char *node, struct stream *st,
	const struct stream_request *request, const char **reason)
{
	static const struct stream_events events = {.writable = on_room, .reset = on_served_reset};

	if (request->udp)
		return __real_stream_server_peer_opened(s, node, st, request, reason);
	stream_accept(st, &events, st);
	stream_answer(st, 200, "");
	on_room(st);
	return 0;
}

/* Returns false if the door refuses the stream. */
static bool
ask_stream(struct bed *b, struct session *s, struct asker *a)
{
	static const struct stream_events events = {
		.answered = on_answered, .reset = on_asker_reset};
	static const struct stream_request request = {.authority = "10.0.0.1:80"};

	assert_int_equal(session_open(s, &request, &events, a, &a->stream), 0);
	until(b, a->status != 0 || a->code != 0);
	assert_true(a->status == 200 || a->code == STREAM_REFUSED);
	return a->status == 200;
}

static void
who_holds_all_memory_is_refused_alone(void **state)
{
	struct bed *b = *state;
	struct ssl_ctx_st *tls = ctx_of(b, "edge-3", false, false);
	struct node_peers *mine = b->peers, *others;
	struct asker greedy[ASKERS] = {0}, other = {0};
	struct session *s;
	size_t n = 0;

	certify(b, "edge-1", "edge-2", false);
	until(b, ask(b, true) != NULL);
	s = ask(b, true);
	while (n < ASKERS && ask_stream(b, s, &greedy[n]))
		n++;
	assert_in_range(n, 1, ASKERS - 1);
	b->peers = others =
		node_peers_new(&(struct node_peers_config){.loop = b->loop, .heartbeat_ms = 4000});
	node_peers_use(others, tls);
	until(b, ask(b, true) != NULL);
	assert_true(ask_stream(b, ask(b, true), &other));
	for (size_t i = 0; i <= n; i++)
		stream_close(&greedy[i].stream, STREAM_CANCELLED);
	stream_close(&other.stream, STREAM_CANCELLED);
	node_peers_free(&others);
	b->peers = mine;
	pki_ctx_free(&tls);
}

static void
serve_datagrams(struct bed *b)
{
	static const char json[] =
		"{\"ns\":\"default\",\"name\":\"datagrams\",\"ports\":[{\"port\":53,\"mode\":"
		"\"udp\","
		"\"endpoints\":[{\"node\":\"edge-2\",\"flags\":3,\"givenIP\":\"192.0.2.99\","
		"\"givenPort\":53}]}]}";
	const struct self self = {.node = "edge-2", .site = "", .zone = "", .forward = true};
	struct snapshot *empty = snapshot_new(true), *next;
	struct change c = {.ns = "default", .name = "datagrams"};
	struct view *view;

	assert_int_equal(view_parse(&view, json, strlen(json), NULL), 0);
	c.service = service_build(view, &self, 1, 2);
	next = snapshot_next(empty, &c, 1);
	stream_server_use(b->serve, next);
	snapshot_unref(&next);
	snapshot_unref(&empty);
	view_free(&view);
}

/* Opens flows and gives them up. */
static void
wave(struct bed *b, struct session *s, size_t n)
{
	static const struct stream_events events = {
		.answered = on_answered, .reset = on_asker_reset};
	static const struct stream_field fields[] = {{"edgeway-service", "default/datagrams"}};
	static const struct stream_request request = {.authority = "192.0.2.99:53",
		.fields = fields,
		.n_fields = ARRAY_LEN(fields),
		.udp = true};
	struct asker askers[ASKERS] = {0};

	assert_in_range(n, 1, ASKERS);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(
			session_open(s, &request, &events, &askers[i], &askers[i].stream), 0);
	for (size_t i = 0; i < n; i++) {
		until(b, askers[i].status != 0 || askers[i].code != 0);
		stream_close(&askers[i].stream, STREAM_CANCELLED);
	}
	until(b, node_door_sum(b->door).of.streams == 0);
}

static unsigned
lines_of(FILE *log, const char *word)
{
	char line[2000];
	unsigned n = 0;

	rewind(log);
	while (fgets(line, sizeof line, log) != NULL)
		n += strstr(line, word) != NULL;
	return n;
}

static const char *
floods_of(const struct bed *b)
{
	static char text[512];
	struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	node_door_floods(b->door, &out);
	snprintf(text, sizeof text, "%s", buf_str(&out));
	buf_fini(&out);
	return text;
}

/* Not with lines in the log, and not with the time of the one that serves; and it is named. */
static void
who_gives_up_flows_costs_little(void **state)
{
	enum { WAVES = 4, WAVE = 250 };
	struct bed *b = *state;
	int saved = dup(STDERR_FILENO);
	FILE *log = tmpfile();
	struct session *s;
	unsigned waves = 0;

	assert_non_null(log);
	serve_datagrams(b);
	clock_pass((60000 - mono_ms() % 60000) * 1000); /* all of it in one minute */
	certify(b, "edge-1", "edge-2", false);
	until(b, ask(b, true) != NULL);
	s = ask(b, true);
	until(b, session_is_settled(s));
	dup2(fileno(log), STDERR_FILENO);
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	while (waves++ < WAVES)
		wave(b, s, WAVE);
	assert_int_equal(node_door_sum(b->door).of.rests, 0);
	assert_string_equal(floods_of(b), "{\"cut\":0}");
	while (node_door_sum(b->door).of.rests == 0 && waves++ < 10 * WAVES)
		wave(b, s, WAVE);
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	dup2(saved, STDERR_FILENO);
	close(saved);
	assert_in_range(node_door_sum(b->door).of.rests, 1, waves);
	assert_int_equal(
		lines_of(log, "flow ended caller=\"node:edge-1\""), STREAM_SERVER_PEER_LINES);
	assert_in_range(lines_of(log,
				"and is read later: update its agent, or see what its pods "
				"dial node=edge-1"),
		1, waves);
	fclose(log);
	assert_non_null(strstr(floods_of(b), "node edge-1 asks for connections and gives them up"));
}

/* Frames of no known type: its session is cut, and the next one is refused for a while. */
static void
who_floods_is_kept_out(void **state)
{
	enum { FRAMES = 1000 };
	static uint8_t frames[FRAMES][FRAME_BUDGET_HEAD];
	struct bed *b = *state;
	struct transport *wire;
	struct session *s;

	for (size_t i = 0; i < FRAMES; i++)
		frames[i][3] = 0x77;
	certify(b, "edge-1", "edge-2", false);
	until(b, ask(b, true) != NULL);
	s = ask(b, true);
	until(b, session_is_settled(s) && sessions(b) == 1);
	wire = s->wire;
	for (unsigned n = 0; n < FRAME_BUDGET_BURST + 2 * FRAME_BUDGET_RATE; n += FRAMES) {
		until(b,
			sessions(b) == 0 ||
				(wire->ops->gather(wire, frames, sizeof frames) == sizeof frames &&
					wire->ops->send(wire) == 0));
	}
	until(b, sessions(b) == 0);
	assert_non_null(strstr(
		floods_of(b), "{\"cut\":1,\"trouble\":\"node edge-1 floods this node with frames"));
	pass(b, FLOODS_REST_MS / 2000);
	ask(b, true);
	pass(b, FLOODS_REST_MS / 4000);
	assert_int_equal(sessions(b), 0);
	until(b, (pass(b, 1), ask(b, true) != NULL));
	until(b, sessions(b) == 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			opened_on_need_and_closed_when_idle, set_up, tear_down),
		cmocka_unit_test_setup_teardown(remembered_when_out_of_reach, set_up, tear_down),
		cmocka_unit_test_setup_teardown(urgent_callers_wait_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(another_node_at_its_address, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_hub_no_twin_gets_in, set_up, tear_down),
		cmocka_unit_test_setup_teardown(revoked_nodes_are_cut, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_door_that_refuses_is_dialled_less_and_less, set_up, tear_down),
		cmocka_unit_test_setup_teardown(another_certificate, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			another_certificate_during_a_dial, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_expired_certificate, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			who_holds_all_memory_is_refused_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_floods_is_kept_out, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_gives_up_flows_costs_little, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
