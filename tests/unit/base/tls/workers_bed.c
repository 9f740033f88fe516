#include "tests/unit/base/tls/workers_bed.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/core/loop.h"
#include "base/core/preauth.h"
#include "base/core/util.h"
#include "base/tls/pki.h"

struct tls_keys ours, strangers;
struct ssl_ctx_st *server, *client, *stranger;
struct loop *loop, *loops[WORKERS];
struct preauth *preauth;
struct tls_workers *pool;
char bulk[BULK];

static pthread_t threads[WORKERS];
static sem_t held; /* by so many workers */

static void *
worker_thread(void *arg)
{
	loop_run(arg);
	return NULL;
}

static void
stop_worker(void *arg)
{
	loop_stop(arg);
}

int
workers_bed_make(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	sem_init(&held, 0, 0);
	tls_keys_make(&ours);
	tls_keys_make(&strangers);
	assert_int_equal(pki_server_ctx(ours.hub, ours.hub_key, ours.ca, &server, NULL), 0);
	assert_int_equal(pki_client_ctx(ours.ca, ours.node, ours.node_key, &client, NULL), 0);
	assert_int_equal(
		pki_client_ctx(ours.ca, strangers.node, strangers.node_key, &stranger, NULL), 0);
	random_bytes(bulk, sizeof bulk);
	assert_int_equal(loop_new(&loop, NULL), 0);
	for (size_t i = 0; i < WORKERS; i++)
		assert_int_equal(loop_new(&loops[i], NULL), 0);
	preauth = preauth_new(loop, PLACES, 1);
	pool = tls_workers_new(loops, WORKERS, preauth);
	for (size_t i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, worker_thread, loops[i]), 0);
	return 0;
}

int
workers_bed_free(void **state)
{
	(void)state;
	tls_workers_free(&pool);
	preauth_free(&preauth);
	for (size_t i = 0; i < WORKERS; i++) {
		loop_post(loops[i], stop_worker, loops[i]);
		pthread_join(threads[i], NULL);
		loop_free(&loops[i]);
	}
	loop_free(&loop);
	pki_ctx_free(&server);
	pki_ctx_free(&client);
	pki_ctx_free(&stranger);
	tls_keys_free(&ours);
	tls_keys_free(&strangers);
	return 0;
}

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;

static void
workers_bed_wait(void *arg)
{
	(void)arg;
	sem_post(&held);
	pthread_mutex_lock(&busy);
	pthread_mutex_unlock(&busy);
}

void
workers_bed_hold(void)
{
	pthread_mutex_lock(&busy);
	for (size_t i = 0; i < WORKERS; i++)
		loop_post(loops[i], workers_bed_wait, NULL);
	for (size_t i = 0; i < WORKERS; i++)
		while (sem_wait(&held) < 0)
			assert_int_equal(errno, EINTR);
}

void
workers_bed_release(void)
{
	pthread_mutex_unlock(&busy);
}
