#include "tunnel/node/egress_client_udp.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/view.h"
#include "tests/unit/patience.h"
#include "tunnel/node/egress_client_udp_choice.h"
#include "tunnel/udp/udp_door.h"

/* Which UDP ports have a door, and to whom flows go. */

#define POD(node, last)                                                                            \
	"{\"node\":\"" node "\",\"flags\":3,\"podIP\":\"172.17.0." last "\",\"podPort\":53}"
#define GIVEN "{\"flags\":3,\"givenIP\":\"192.0.2.9\",\"givenPort\":53}"

static struct service *
make(const char *name, const char *mode, const char *endpoints)
{
	const struct self self = {.node = "a", .site = "", .zone = "", .forward = true};
	auto_free char *json =
		xasprintf("{\"ns\":\"default\",\"name\":\"%s\",\"ports\":[{\"port\":53,"
			  "\"mode\":\"%s\",\"endpoints\":[%s]}]}",
			name, mode, endpoints);
	struct service *s;
	struct view *v;

	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	s = service_build(v, &self, 0x09fb0001, strlen(json));
	view_free(&v);
	return s;
}

/* --- the choice ----------------------------------------------------------------------------- */

static void
the_hub_is_no_second_choice(void **state)
{
	static const struct {
		const char *mode, *endpoints;
		bool needs;
	} cases[] = {
		{"udp", POD("b", "2"), true},
		{"tcp", POD("b", "2"), false},
		{"udp", "", false},
		{"udp", POD("b", "2") "," GIVEN, false},
		{"udp", POD("b", "2") "," POD("a", "2"), false}, /* its own */
		{"udp", POD("b", "2") "," POD("c", "2"), true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct service *s = make("s", cases[i].mode, cases[i].endpoints);

		assert_int_equal(choice_needs_hub(&s->ports[0]), cases[i].needs);
		service_unref(&s);
	}
}

static void
clients_are_spread_and_stay(void **state)
{
	struct service *three = make("s", "udp", POD("b", "2") "," POD("b", "3") "," POD("c", "2"));
	struct service *two = make("s", "udp", POD("b", "2") "," POD("c", "2"));
	const struct choice_ill none = {0};
	unsigned n[3] = {0};

	(void)state;
	for (uint64_t key = 0; key < 3000; key++) {
		const struct choice_ask ask = {.key = key, .ill = &none};
		const struct endpoint *e = choice_pick(&three->ports[0], &ask);
		const struct endpoint *left = choice_pick(&two->ports[0], &ask);
		const struct choice_place place = {e->ip, e->port};

		n[e - three->ports[0].endpoints]++;
		/* only those whose endpoint is gone have another one now */
		if (choice_has(&two->ports[0], &place))
			assert_memory_equal(&left->ip, &e->ip, sizeof e->ip);
	}
	for (size_t i = 0; i < 3; i++)
		assert_in_range(n[i], 800, 1200);
	service_unref(&three);
	service_unref(&two);
}

static void
one_that_failed_is_passed_over(void **state)
{
	struct service *s = make("s", "udp", POD("b", "2") "," POD("c", "2"));
	struct choice_ill ill = {0};
	struct choice_ask ask = {.key = 1, .ill = &ill, .now_ms = 1000};
	const struct endpoint *first = choice_pick(&s->ports[0], &ask), *second;
	struct choice_place tried[2] = {{first->ip, first->port}};

	(void)state;
	ask.tried = tried;
	ask.n_tried = 1;
	second = choice_pick(&s->ports[0], &ask);
	assert_ptr_not_equal(second, first);
	tried[1] = (struct choice_place){second->ip, second->port};
	ask.n_tried = 2;
	assert_null(choice_pick(&s->ports[0], &ask));
	ask.n_tried = 0;
	choice_failed(&ill, &tried[0], ask.now_ms);
	assert_ptr_equal(choice_pick(&s->ports[0], &ask), second);
	choice_failed(&ill, &tried[1], ask.now_ms); /* all have failed: as if none had */
	assert_ptr_equal(choice_pick(&s->ports[0], &ask), first);
	for (unsigned i = 0; i < 2 * CHOICE_ILL; i++) /* the same place takes no more room */
		choice_failed(&ill, &tried[0], ask.now_ms);
	ask.now_ms += CHOICE_ILL_MS;
	choice_failed(&ill, &tried[1], ask.now_ms);
	assert_ptr_equal(choice_pick(&s->ports[0], &ask), first);
	service_unref(&s);
}

/* --- doors ---------------------------------------------------------------------------------- */

struct bed {
	struct loop *loop;
	struct egress_client *outlet;
	struct egress_client_udp *udp;
	struct snapshot *snapshot;
};

static int
set_up(void **state)
{
	struct bed *b = xcalloc(1, sizeof *b);

	assert_int_equal(loop_new(&b->loop, NULL), 0);
	b->outlet = egress_client_new(
		&(struct tunnel_client_config){.loop = b->loop, .heartbeat_ms = 4000});
	b->udp = egress_client_udp_new(&(struct egress_client_udp_config){
		.loop = b->loop, .outlet = b->outlet, .idle_ms = 5000});
	*state = b;
	return 0;
}

static int
tear_down(void **state)
{
	struct bed *b = *state;

	egress_client_udp_free(&b->udp);
	egress_client_free(&b->outlet);
	snapshot_unref(&b->snapshot);
	loop_free(&b->loop);
	free(b);
	return 0;
}

/* The service is this one now, which is taken; NULL: gone. Then the kernel would be told. */
static void
use(struct bed *b, const char *name, struct service *service)
{
	struct change c = {.ns = "default", .name = name, .service = service};
	struct snapshot *old = b->snapshot, *empty = snapshot_new(true);

	b->snapshot = snapshot_next(old != NULL ? old : empty, &c, 1);
	egress_client_udp_use(b->udp, old, b->snapshot);
	snapshot_unref(&old);
	snapshot_unref(&empty);
}

static uint16_t
door(struct bed *b, const char *name)
{
	const struct service *s = snapshot_find(b->snapshot, "default", 7, name, strlen(name));

	return egress_client_udp_door(b->udp, s, &s->ports[0]);
}

static bool
says(struct bed *b, bool of_outlet, const char *text)
{
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	if (of_outlet)
		egress_client_state(b->outlet, &out);
	else
		egress_client_udp_state(b->udp, &out);
	return strstr(buf_str(&out), text) != NULL;
}

static void
turn_until(struct bed *b, const char *text)
{
	patience_until(patience_turn(b->loop), says(b, false, text));
}

/* A client that has sent one datagram there. */
static int
client(uint16_t port)
{
	const struct addr to = addr_ipv4(INADDR_LOOPBACK, port);
	int fd;

	assert_int_equal(sock_connect_udp(&to, 0, 0, &fd), 0);
	assert_int_equal(send(fd, "x", 1, 0), 1);
	return fd;
}

static void
doors_follow_the_services(void **state)
{
	struct bed *b = *state;
	uint16_t first;
	int fd;

	use(b, "one", make("one", "udp", POD("b", "2")));
	use(b, "near", make("near", "udp", GIVEN));
	assert_int_equal(door(b, "one"), 0); /* the mesh has no address yet */
	egress_client_udp_listen(b->udp, INADDR_LOOPBACK);
	assert_int_equal(door(b, "near"), 0);
	first = door(b, "one");
	assert_int_not_equal(first, 0);
	egress_client_udp_settle(b->udp);
	use(b, "one", make("one", "udp", POD("b", "2") "," POD("b", "3")));
	egress_client_udp_settle(b->udp);
	assert_int_equal(door(b, "one"), first);
	use(b, "one", make("one", "udp", POD("b", "2") "," GIVEN)); /* one can be sent to now */
	assert_int_equal(door(b, "one"), 0);
	fd = client(first); /* it stays until the kernel knows */
	assert_int_equal(sock_error(fd), 0);
	close(fd);
	egress_client_udp_settle(b->udp);
	assert_true(says(b, false, "\"ports\":[]"));
	fd = client(first);
	assert_int_equal(sock_error(fd), ECONNREFUSED);
	close(fd);
}

static void
another_address_means_other_doors(void **state)
{
	struct bed *b = *state;

	use(b, "one", make("one", "udp", POD("b", "2")));
	egress_client_udp_listen(b->udp, INADDR_LOOPBACK);
	assert_int_not_equal(door(b, "one"), 0);
	egress_client_udp_listen(b->udp, 0);
	assert_true(says(b, false, "\"door\":\"\""));
	assert_int_equal(door(b, "one"), 0);
	egress_client_udp_listen(b->udp, INADDR_LOOPBACK);
	assert_int_not_equal(door(b, "one"), 0);
}

/* There is no hub here: flows wait for it until they, or their service, go. */
static void
flows_end_with_their_endpoint(void **state)
{
	struct bed *b = *state;
	int fds[2];

	use(b, "one", make("one", "udp", POD("b", "2")));
	egress_client_udp_settle(b->udp);
	egress_client_udp_listen(b->udp, INADDR_LOOPBACK);
	fds[0] = client(door(b, "one"));
	fds[1] = client(door(b, "one"));
	turn_until(b, "{\"flows\":2,");
	assert_true(says(b, true, "\"pending\":2"));
	use(b, "one", make("one", "udp", POD("b", "2") "," POD("c", "2")));
	egress_client_udp_settle(b->udp);
	assert_true(says(b, false, "{\"flows\":2,"));
	use(b, "one", make("one", "udp", POD("c", "2")));
	egress_client_udp_settle(b->udp);
	assert_true(says(b, false, "{\"flows\":0,"));
	assert_true(says(b, true, "\"pending\":0") && says(b, true, "\"cancelled\":2"));
	assert_true(says(b, false, "\"dropped\":2"));
	egress_client_udp_drain(b->udp);
	assert_int_equal(send(fds[0], "x", 1, 0), 1);
	turn_until(b, "\"dropped\":3"); /* no new ones */
	close(fds[0]);
	close(fds[1]);
}

static int
sender(struct bed *b, const char *service, uint32_t from)
{
	const struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(from)},
				 to = {.sin_family = AF_INET,
					 .sin_port = htons(door(b, service)),
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (const struct sockaddr *)&own, sizeof own), 0);
	assert_int_equal(sendto(fd, "x", 1, 0, (const struct sockaddr *)&to, sizeof to), 1);
	return fd;
}

/* One client has a quarter of what all doors may carry together; the next one has room. */
static void
a_client_has_its_share(void **state)
{
	struct bed *b = *state;
	int fds[EGRESS_CLIENT_UDP_SHARE + 2];

	egress_client_udp_listen(b->udp, INADDR_LOOPBACK);
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++) {
		auto_free char *name = xasprintf("s%u", i / (UDP_DIALS / 2));
		bool last = i == ARRAY_LEN(fds) - 1;

		if (i % (UDP_DIALS / 2) == 0)
			use(b, name, make(name, "udp", POD("b", "2")));
		if (last)
			turn_until(b, "\"dropped\":1");
		fds[i] = sender(b, name, INADDR_LOOPBACK + last);
	}
	assert_true(says(b, false, "{\"flows\":256,"));
	turn_until(b, "{\"flows\":257,");
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
}

/* Flows that wait for the hub: one client leaves as many places of a port as it takes. */
static void
a_client_leaves_places_to_dial(void **state)
{
	struct bed *b = *state;
	int fds[UDP_DIALS + 1];

	use(b, "one", make("one", "udp", POD("b", "2")));
	egress_client_udp_listen(b->udp, INADDR_LOOPBACK);
	for (unsigned i = 0; i < UDP_DIALS; i++)
		fds[i] = sender(b, "one", INADDR_LOOPBACK);
	turn_until(b, "\"dropped\":64");
	assert_true(says(b, false, "{\"flows\":64,"));
	fds[UDP_DIALS] = sender(b, "one", INADDR_LOOPBACK + 1);
	turn_until(b, "{\"flows\":65,");
	turn_until(b, "{\"flows\":0,"); /* refused: their places are free again */
	close(fds[UDP_DIALS]);
	fds[UDP_DIALS] = sender(b, "one", INADDR_LOOPBACK);
	turn_until(b, "{\"flows\":1,");
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
}

static void
without_a_hub_it_is_refused(void **state)
{
	struct bed *b = *state;
	int fd;

	use(b, "one", make("one", "udp", POD("b", "2")));
	egress_client_udp_listen(b->udp, INADDR_LOOPBACK);
	fd = client(door(b, "one"));
	turn_until(b, "{\"flows\":1,");
	turn_until(b, "{\"flows\":0,");
	assert_true(says(b, true, "\"no_hub\":1"));
	assert_true(says(b, false, "\"dropped\":1"));
	assert_int_equal(send(fd, "x", 1, 0), 1);
	turn_until(b, "\"dropped\":2"); /* not asked for again so soon */
	assert_true(says(b, true, "\"pending\":0"));
	close(fd);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hub_is_no_second_choice),
		cmocka_unit_test(clients_are_spread_and_stay),
		cmocka_unit_test(one_that_failed_is_passed_over),
		T(doors_follow_the_services),
		T(another_address_means_other_doors),
		T(flows_end_with_their_endpoint),
		T(a_client_has_its_share),
		T(a_client_leaves_places_to_dial),
		T(without_a_hub_it_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
