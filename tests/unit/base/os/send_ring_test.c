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

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_ring_can_only_send)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
