#include "hub/sync/sync_gate.h"

static void
sync_gate_turn(struct sync_gate *g, uint64_t now_ms)
{
	uint64_t window = now_ms / (SYNC_GATE_MS / 2) + 1;

	if (window == g->window)
		return;
	g->before = window == g->window + 1 ? g->now : 0;
	g->now = 0;
	g->window = window;
}

bool
sync_gate_open(struct sync_gate *g, uint64_t now_ms)
{
	bool open;

	sync_gate_turn(g, now_ms);
	open = g->now + g->before < SYNC_GATE_MOST;
	g->refused += !open;
	return open;
}

uint64_t
sync_gate_begin(struct sync_gate *g, uint64_t now_ms)
{
	sync_gate_turn(g, now_ms);
	g->now++;
	return g->window;
}

void
sync_gate_end(struct sync_gate *g, uint64_t *ticket)
{
	if (*ticket == g->window && g->now > 0)
		g->now--;
	else if (*ticket + 1 == g->window && g->before > 0)
		g->before--;
	*ticket = 0;
}
