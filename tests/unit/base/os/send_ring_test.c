/* What a ring cannot do, and which send is whose; more of what it does is in
 * tests/unit/lb/conn/peer_test.c. */
#include "base/os/send_ring.c"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The kernel's answers, or the scripted ones. */
static int init_says, submit_says;

int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *uring, unsigned flags);
int __real_io_uring_queue_init(unsigned entries, struct io_uring *uring, unsigned flags);
int __wrap_io_uring_submit_and_wait(struct io_uring *uring, unsigned n);
int __real_io_uring_submit_and_wait(struct io_uring *uring, unsigned n);

int
__wrap_io_uring_queue_init(unsigned entries, struct io_uring *uring, unsigned flags)
{
	return init_says < 0 ? init_says : __real_io_uring_queue_init(entries, uring, flags);
}

int
__wrap_io_uring_submit_and_wait(struct io_uring *uring, unsigned n)
{
	return submit_says <= 0 ? submit_says : __real_io_uring_submit_and_wait(uring, n);
}

/* NULL: the kernel of this machine has none. */
static struct send_ring *
open_ring(void)
{
	struct io_uring uring;
	struct send_ring *ring;
	struct err err;

	submit_says = 1;
	if (__real_io_uring_queue_init(
		    1, &uring, IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL) < 0)
		return NULL;
	io_uring_queue_exit(&uring);
	assert_int_equal(send_ring_new(&ring, &err), 0);
	return ring;
}

/* Whoever runs code in the agent can do nothing else with a ring that is there. */
static void
test_ring_can_only_send(void **state)
{
	struct io_uring_probe *probe = io_uring_get_probe();
	struct io_uring_cqe *cqe;
	struct send_ring *ring = open_ring();

	(void)state;
	if (ring == NULL)
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
	struct send_ring *ring = open_ring();
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)state;
	if (ring == NULL)
		skip();
	rests.n = 0;
	rests.len = 0;
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

/* A ring that is full is submitted, which fails: the send that was to come in then is not taken. */
static void
test_kernel_takes_none_of_a_full_ring(void **state)
{
	struct send_ring *ring = open_ring();
	struct iovec iov = {(char[]){"rest"}, 4};

	(void)state;
	if (ring == NULL)
		skip();
	rests.n = 0;
	for (int i = 0; i < ENTRIES; i++)
		assert_true(send_ring_add(ring, -1, &iov, 1, on_rest, NULL));
	assert_int_equal(rests.n, 0);
	submit_says = 0;
	assert_false(send_ring_add(ring, -1, &iov, 1, on_rest, NULL));
	assert_int_equal(rests.n, ENTRIES);
	assert_int_equal(send_ring_error(ring), -EAGAIN);
	assert_false(send_ring_takes(ring, 1));
	send_ring_free(&ring);
	assert_null(ring);
	send_ring_free(&ring);
}

struct owner {
	int fd, other;
	unsigned told;
};

static void
on_all_sent(void *owner, const char *rest, size_t len)
{
	(void)rest;
	assert_int_equal(len, 0);
	((struct owner *)owner)->told++;
}

/* Each is told of its own, and only the last segment of the one that ends is marked. */
static void
test_each_has_its_own(void **state)
{
	struct send_ring *ring = open_ring();
	struct owner owners[3] = {0};
	char text[8], got[16];

	(void)state;
	if (ring == NULL)
		skip();
	for (int i = 0; i < 3; i++) {
		struct iovec iov[2] = {{(char[]){"owner "}, 6}, {text, 1}};
		int pair[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		owners[i].fd = pair[0];
		owners[i].other = pair[1];
		text[0] = (char)('0' + i);
		assert_true(send_ring_add(ring, pair[0], iov, 2, on_all_sent, &owners[i]));
	}
	send_ring_more(ring, &owners[1]);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ring->queued[i].sqe->msg_flags & MSG_MORE, i == 1 ? MSG_MORE : 0);
	send_ring_submit(ring);
	assert_int_equal(send_ring_error(ring), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(owners[i].told, 1);
		assert_int_equal(recv(owners[i].other, got, sizeof got, MSG_DONTWAIT), 7);
		assert_memory_equal(got, "owner ", 6);
		assert_int_equal(got[6], '0' + i);
		close(owners[i].fd);
		close(owners[i].other);
	}
	send_ring_free(&ring);
}

/* It holds as many bytes as it has room for, and is submitted before the next ones. */
static void
test_room(void **state)
{
	static char bytes[ONE_BYTES], got[BYTES];
	struct send_ring *ring = open_ring();
	struct iovec iov = {bytes, sizeof bytes};
	struct owner owner = {0};
	int pair[2];

	(void)state;
	if (ring == NULL)
		skip();
	assert_false(send_ring_takes(NULL, 1));
	assert_true(send_ring_takes(ring, ONE_BYTES));
	assert_false(send_ring_takes(ring, ONE_BYTES + 1));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	for (unsigned i = 0; i < BYTES / ONE_BYTES; i++)
		assert_true(send_ring_add(ring, pair[0], &iov, 1, on_all_sent, &owner));
	assert_int_equal(owner.told, 0);
	iov.iov_len = 1;
	assert_true(send_ring_add(ring, pair[0], &iov, 1, on_all_sent, &owner));
	assert_int_equal(owner.told, BYTES / ONE_BYTES);
	assert_int_equal(recv(pair[1], got, sizeof got, MSG_WAITALL), sizeof got);
	send_ring_submit(ring);
	assert_int_equal(recv(pair[1], got, sizeof got, MSG_DONTWAIT), 1);
	send_ring_free(&ring);
	close(pair[0]);
	close(pair[1]);
}

/* The agent's log says what is to be changed. */
static void
test_why_there_is_none(void **state)
{
	static const struct {
		int rc;
		const char *why;
	} rows[] = {
		{-EPERM, "io_uring is forbidden here"},
		{-ENOSYS, "this kernel has no io_uring"},
		{-EINVAL, "this kernel has no io_uring"},
		{-ENOMEM, "io_uring: Cannot allocate memory"},
	};
	struct send_ring *ring;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = {0};

		init_says = rows[i].rc;
		assert_int_equal(send_ring_new(&ring, &err), rows[i].rc);
		init_says = 0;
		assert_null(ring);
		assert_memory_equal(err.text, rows[i].why, strlen(rows[i].why));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring_can_only_send),
		cmocka_unit_test(test_kernel_refuses),
		cmocka_unit_test(test_kernel_takes_none_of_a_full_ring),
		cmocka_unit_test(test_each_has_its_own),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_why_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
