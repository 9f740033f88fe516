/* Who gets a place among the requests that wait for an operator, and whose. The rest is
 * tests/net/identity/test_approval.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "hub/identity/approvals_private.h"
#include "tests/fake/clock.h"

struct bed {
	struct loop *loop;
	struct approvals a;
	unsigned n; /* requests ever made */
};

static void
nothing(void *arg)
{
	(void)arg;
}

static int
setup(void **state)
{
	struct bed *b = xcalloc(1, sizeof *b);

	assert_int_equal(loop_new(&b->loop, NULL), 0);
	b->a.config.loop = b->loop;
	b->a.timer = timer_new(b->loop, nothing, b);
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	struct bed *b = *state;

	while (b->a.held != NULL) {
		struct held *h = b->a.held;

		b->a.held = h->next;
		csr_fini(&h->csr);
		free(h);
	}
	timer_free(&b->a.timer);
	loop_free(&b->loop);
	free(b);
	return 0;
}

static void
pass(struct bed *b, uint64_t ms)
{
	clock_pass(ms * 1000);
	loop_turn(b->loop);
}

/* As when a node asks for the first time; the request is with the API server then. NULL: it was
 * refused. */
static struct held *
ask(struct bed *b, const char *address)
{
	struct held *h;

	if (approvals_make_room(&b->a, address) != NULL)
		return NULL;
	h = approvals_add(&b->a);
	snprintf(h->csr.name, sizeof h->csr.name, "r%u", b->n++);
	h->csr.node = xstrdup("edge");
	h->csr.address = xstrdup(address);
	h->csr.ours = h->sent = true;
	h->source = approvals_source(address);
	return h;
}

static unsigned
waiting(const struct bed *b, const char *address)
{
	unsigned n = 0;

	for (const struct held *h = b->a.held; h != NULL; h = h->next)
		n += !h->given_up && (address == NULL || strcmp(h->csr.address, address) == 0);
	return n;
}

static void
fill(struct bed *b, unsigned addresses, unsigned each)
{
	char address[32];

	for (unsigned i = 0; i < addresses; i++)
		for (unsigned k = 0; k < each; k++) {
			snprintf(address, sizeof address, "192.0.2.%u", i);
			assert_non_null(ask(b, address));
		}
}

static void
an_address_has_its_share(void **state)
{
	struct bed *b = *state;

	fill(b, 1, APPROVALS_ADDRESS_MAX);
	assert_null(ask(b, "192.0.2.0"));
	assert_non_null(strstr(approvals_make_room(&b->a, "192.0.2.0"), "from this address"));
	assert_non_null(ask(b, "192.0.2.1"));
	/* All of a /64 is one address, in whichever form; what is none is one as well. */
	for (unsigned i = 0; i < APPROVALS_ADDRESS_MAX; i++) {
		char address[64];

		snprintf(address, sizeof address,
			i % 2 == 0 ? "[2001:db8:1:2::%x]" : "2001:db8:1:2:%x::1", i + 1);
		assert_non_null(ask(b, address));
	}
	assert_null(ask(b, "[2001:db8:1:2:ffff:ffff:ffff:ffff]"));
	assert_non_null(ask(b, "[2001:db8:1:3::1]"));
	for (unsigned i = 0; i < APPROVALS_ADDRESS_MAX; i++)
		assert_non_null(ask(b, "via:192.0.2.0"));
	assert_null(ask(b, "via:192.0.2.0"));
	assert_int_equal(b->a.expired, 0);
}

static void
few_addresses_keep_nobody_out(void **state)
{
	struct bed *b = *state;
	struct held *first;

	fill(b, APPROVALS_PENDING_MAX / APPROVALS_ADDRESS_MAX, APPROVALS_ADDRESS_MAX);
	assert_int_equal(waiting(b, NULL), APPROVALS_PENDING_MAX);
	first = ask(b, "198.51.100.1");
	assert_non_null(first);
	assert_int_equal(waiting(b, NULL), APPROVALS_PENDING_MAX);
	/* Those that have most give, in turn, until the shares are even; whoever has no more keeps
	 * his. */
	for (unsigned i = 1; i < APPROVALS_ADDRESS_MAX - 1; i++)
		assert_non_null(ask(b, "198.51.100.1"));
	assert_null(ask(b, "198.51.100.1"));
	assert_false(first->given_up);
	assert_int_equal(waiting(b, "198.51.100.1"), APPROVALS_ADDRESS_MAX - 1);
	assert_int_equal(waiting(b, NULL), APPROVALS_PENDING_MAX);
	assert_int_equal(b->a.expired, APPROVALS_ADDRESS_MAX - 1);
}

static void
whose_node_has_gone_gives_way(void **state)
{
	struct bed *b = *state;
	struct held *stays, *gone;

	stays = ask(b, "192.0.2.0");
	pass(b, 1000);
	gone = ask(b, "192.0.2.0");
	pass(b, 1000);
	fill(b, 1, APPROVALS_ADDRESS_MAX - 2);
	pass(b, APPROVALS_STALE_MS - 500);
	stays->asked_ms = loop_now_ms(b->loop); /* it has asked again */
	assert_non_null(ask(b, "192.0.2.0"));
	assert_true(gone->given_up && !stays->given_up);
	assert_null(ask(b, "192.0.2.0"));
	/* Nobody's place is taken while there is room. */
	pass(b, 10 * APPROVALS_STALE_MS);
	assert_non_null(ask(b, "192.0.2.1"));
	assert_int_equal(b->a.expired, 1);
}

/* What the API server does not have yet is simply dropped. */
static void
what_was_not_sent_is_dropped(void **state)
{
	struct bed *b = *state;
	struct held *h;

	for (unsigned i = 0; i < APPROVALS_ADDRESS_MAX; i++) {
		h = ask(b, "192.0.2.0");
		h->asked = true;
		h->sent = h->csr.ours = false;
	}
	pass(b, APPROVALS_STALE_MS);
	assert_non_null(ask(b, "192.0.2.0"));
	assert_int_equal(b->a.n_held, APPROVALS_ADDRESS_MAX);
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(an_address_has_its_share),
		T(few_addresses_keep_nobody_out),
		T(whose_node_has_gone_gives_way),
		T(what_was_not_sent_is_dropped),
	};

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
