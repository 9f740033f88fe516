/*
 * A world in place of base/core/loop, base/http/ws, base/net/resolve and meta/state/writer, for
 * programs that link these fakes before the libraries: one scripted clock, timers in its order,
 * websockets whose frames take their time (in order on a connection, some twice), lines that are
 * cut, databases that are written late, while the disk is full or in a crash not at all. The
 * program is linked with --wrap for mono_ms, wall_ms and random_bytes, so that a seed decides
 * everything.
 *
 *	net_start(seed, &hub, arg);
 *	net_run(60000);		// a minute passes
 *	net_cut("edge-1", true);
 */
#ifndef EDGEWAY_TESTS_FAKE_NET_H
#define EDGEWAY_TESTS_FAKE_NET_H

#include "base/http/ws.h"

struct net_hub { /* the server's side of every connection */
	void (*open)(void *arg, struct ws_conn *c, const char *node);
	void (*text)(void *arg, struct ws_conn *c, const char *text, size_t len);
	void (*closed)(void *arg, struct ws_conn *c);
};

/* What the hub sends to this node passes `eat` first, which answers true to keep it for itself.
 * NULL: no more. */
typedef bool net_eat_fn(void *arg, struct ws_conn *hub_end, const char *text, size_t len);
void net_eat(const char *node, net_eat_fn *eat);
void net_start(uint64_t seed, const struct net_hub *hub, void *arg);
struct loop *net_loop(void);
uint32_t net_random(uint32_t below);
uint64_t net_now_ms(void);
void net_run(uint64_t ms);
/* Nothing passes to or from the node; what is open breaks some time later, on each side by
 * itself. */
void net_cut(const char *node, bool cut);
/* Nobody listens, and the server's ends are gone without `closed`. */
void net_hub_up(bool up);
/* From now on what waits for a database is lost at writer_stop, as in a crash. */
void net_crash(bool crash);
/* From now on nothing can be written into the databases; false: what waits is written soon. */
void net_disk_full(bool full);
/* How many transactions were told so. */
uint64_t net_refused(void);
uint64_t net_frames(void);

#endif
