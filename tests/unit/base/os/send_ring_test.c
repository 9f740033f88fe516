/* What a ring cannot do; what it does is in tests/unit/lb/conn/peer_test.c. */
#include "base/os/send_ring.c"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Whoever runs code in the agent can do nothing else with a ring that is there. */
static void
test_ring_can_only_send(void **state)
{
	struct io_uring_probe *probe = io_uring_get_probe();
	struct io_uring_cqe *cqe;
	struct send_ring *ring;
	struct err err;

	(void)state;
	if (send_ring_new(&ring, &err) < 0)
		skip();
	io_uring_prep_openat(io_uring_get_sqe(&ring->uring), AT_FDCWD, "/", O_RDONLY, 0);
	assert_int_equal(io_uring_submit_and_wait(&ring->uring, 1), 1);
	assert_int_equal(io_uring_wait_cqe(&ring->uring, &cqe), 0);
	assert_int_equal(cqe->res, -EACCES);
	io_uring_cqe_seen(&ring->uring, cqe);
	assert_int_equal(
		io_uring_register((unsigned)ring->uring.ring_fd, IORING_REGISTER_PROBE, probe, 1),
		-EACCES);
	io_uring_free_probe(probe);
	send_ring_free(&ring);
}

static struct {
	unsigned n;
	size_t len;
} rests;

static void
on_rest(void *owner, const char *rest, size_t len)
{
	(void)owner;
	assert_memory_equal(rest, "rest", 4);
	rests.n++;
	rests.len += len;
}

/* The kernel has stopped taking sends: each owner has its bytes back, once, the ring takes no more,
 * and what is wrong is told. */
static void
test_kernel_refuses(void **state)
{
	struct send_ring *ring;
	struct err err;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)state;
	if (send_ring_new(&ring, &err) < 0)
		skip();
	assert_int_equal(send_ring_error(ring), 0);
	for (int i = 0; i < 3; i++)
		assert_true(send_ring_add(
			ring, null, &(struct iovec){(char[]){"rest"}, 4}, 1, on_rest, NULL));
	assert_true(dup3(null, ring->uring.ring_fd, O_CLOEXEC) >= 0);
	send_ring_submit(ring);
	assert_int_equal(rests.n, 3);
	assert_int_equal(rests.len, 12);
	assert_int_equal(send_ring_error(ring), -EOPNOTSUPP);
	assert_false(
		send_ring_add(ring, null, &(struct iovec){(char[]){"rest"}, 4}, 1, on_rest, NULL));
	send_ring_submit(ring);
	assert_int_equal(rests.n, 3);
	send_ring_free(&ring);
	close(null);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring_can_only_send),
		cmocka_unit_test(test_kernel_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
