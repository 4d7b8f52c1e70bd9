/* Units of a concurrency limit in Redis. README.md beside this file says what is modelled.
 *
 *	spin -a -DLIMIT=1 holds.pml && cc -O2 -DSAFETY -DNOREDUCE -o pan pan.c && ./pan -m1000000
 *
 * A process asks for a unit under an id of its own, renews it while the request runs, and then
 * releases it. Redis keeps the units that are held, and how long each is held unless renewed.
 * Time moves in ticks of a third of HoldTime. A message arrives within FLIGHT ticks of the one in
 * which it was sent, or is lost.
 */
#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifndef LIMIT
#define LIMIT 1
#endif
#ifndef FAULTS
#define FAULTS 2	/* how many faults may happen in all */
#endif
#ifndef FLIGHT
#define FLIGHT 0
#endif
#define HOLD 3
#define STEP 2		/* ticks by which the server's clock steps */
#ifndef IDS
#define IDS (2 * PROCESSES)
#endif
#define process(i) ((i) % PROCESSES)	/* whose id it is */

#define FREE 0
#define ASKED 1		/* the taking has no answer yet */
#define RUNNING 2
#define ENDED 3		/* is to be released */
#define AGAIN 4		/* is to be released a second time, when nothing is under way any more */

byte state[IDS];	/* what the process knows */
byte held[IDS];		/* ticks until Redis forgets the unit; 0: it is not held */
byte taking[IDS];	/* messages under way: ticks until they are lost, or 0 */
byte renewal[IDS];
byte release[IDS];
bit late[IDS];		/* a taking or renewal without an answer may arrive after the release */
byte waits[IDS];	/* ticks until the second release */
byte replica[IDS];	/* held, as the replica knows it */
byte faults;

/* These say what has happened, and change nothing. */
bit lost[IDS];		/* Redis has not known the unit while its request ran */
byte orphan[IDS];	/* ticks for which a held unit has had no request and no message */
bit reported[IDS];	/* the end of the request has been reported */
bit stepped;		/* no taking has arrived since the clock stepped back */

#define fault (faults < FAULTS)
#define under_way(i) (taking[i] || renewal[i] || release[i])
#ifdef NO_GENERATION	/* a mistake: an id is used again while a release of it is under way */
#define unused(i) (state[i] == FREE && held[i] == 0 && !taking[i] && !renewal[i])
#else
#define unused(i) (state[i] == FREE && held[i] == 0 && replica[i] == 0 && !under_way(i))
#endif

#define is_held(i) (held[i] > 0)
#define is_safe(i) (state[i] == RUNNING && !lost[i])
#define is_used_0(i) (state[i] != FREE && process(i) == 0)
#define is_used_1(i) (state[i] != FREE && process(i) == 1)
#define is_used_2(i) (state[i] != FREE && process(i) == 2)
#if IDS == 3
#define sum(f) (f(0) + f(1) + f(2))
#define each_id(t) :: t(0) :: t(1) :: t(2)
#elif IDS == 4
#define sum(f) (f(0) + f(1) + f(2) + f(3))
#define each_id(t) :: t(0) :: t(1) :: t(2) :: t(3)
#elif IDS == 5
#define sum(f) (f(0) + f(1) + f(2) + f(3) + f(4))
#define each_id(t) :: t(0) :: t(1) :: t(2) :: t(3) :: t(4)
#endif
#if PROCESSES == 3
#define each_process(t) :: t(0) :: t(1) :: t(2)
#else
#define each_process(t) :: t(0) :: t(1)
#endif

byte k;	/* a counter, 0 between transitions */

/* The promises. */
inline check() {
	assert(sum(is_safe) <= LIMIT);
	for (k : 0 .. IDS - 1) {
		assert(orphan[k] < HOLD || stepped);
	}
	k = 0;
}

inline send_release(i) { state[i] = ENDED; release[i] = FLIGHT + 1 }

inline report(i) { assert(!reported[i]); reported[i] = 1 }

/* A caller asks. The other id is tried only if this one is in use. */
#define ask(i) d_step { unused(i) && (i < PROCESSES || !unused((i + IDS - PROCESSES) % IDS)) -> \
	state[i] = ASKED; taking[i] = FLIGHT + 1; reported[i] = 0; check() }

/* A taking arrives. It counts what is held, and shortens what is held for too long, since the
 * clock stepped back. */
inline arrive_taking(i, fits) {
	taking[i] = 0; fits = (sum(is_held) < LIMIT);
	for (k : 0 .. IDS - 1) {
		if :: held[k] > HOLD -> held[k] = HOLD :: else fi;
		if :: stepped -> orphan[k] = 0 :: else fi
	}
	k = 0; stepped = 0;
	if :: fits -> held[i] = HOLD; orphan[i] = 0 :: else fi
}
bit fits;
#define take(i) d_step { taking[i] > 0 -> arrive_taking(i, fits); \
	if :: state[i] == ASKED && fits -> state[i] = RUNNING \
	   :: state[i] == ASKED && !fits -> state[i] = FREE \
	   :: else fi; fits = 0; check() }
#define take_without_reply(i) d_step { taking[i] > 0 && state[i] == ASKED && fault -> \
	faults++; arrive_taking(i, fits); fits = 0; late[i] = 1; send_release(i); check() }

/* The caller leaves before the answer. */
#define leave(i) d_step { state[i] == ASKED -> late[i] = 1; send_release(i); check() }

/* A renewal arrives. A unit that Redis does not know is put back. */
#ifdef ADOPTS	/* a mistake: a renewal extends every unit of its process */
#define renew(i) d_step { renewal[i] > 0 -> renewal[i] = 0; held[i] = HOLD; orphan[i] = 0; \
	for (k : 0 .. IDS - 1) { \
		if :: held[k] > 0 && process(k) == process(i) -> held[k] = HOLD :: else fi } \
	k = 0; check() }
#else
#define renew(i) d_step { renewal[i] > 0 -> renewal[i] = 0; held[i] = HOLD; orphan[i] = 0; check() }
#endif

#define end(i) d_step { state[i] == RUNNING -> report(i); lost[i] = 0; send_release(i); check() }

/* A release arrives. */
inline arrive_release(i) {
	assert(state[i] != RUNNING);	/* no unit is freed that is in use */
	release[i] = 0; held[i] = 0; orphan[i] = 0
}
#define free(i) d_step { release[i] > 0 -> arrive_release(i); \
	if :: state[i] == ENDED && late[i] -> late[i] = 0; state[i] = AGAIN; waits[i] = FLIGHT + 1 \
	   :: state[i] == ENDED && !late[i] -> state[i] = FREE \
	   :: else fi; check() }
#define free_without_reply(i) d_step { release[i] > 0 && state[i] == ENDED && fault -> \
	faults++; arrive_release(i); check() }

/* A process dies. Another takes its place at once. */
#define crash(p) d_step { fault && sum(is_used_##p) > 0 -> faults++; \
	for (k : 0 .. IDS - 1) { \
		if :: process(k) == p -> state[k] = FREE; late[k] = 0; waits[k] = 0; lost[k] = 0 \
		   :: else fi \
	} k = 0; check() }

/* Redis forgets units: after this k has lost its unit if its request runs. */
inline forget(k) {
	if :: held[k] > 0 && state[k] == RUNNING -> lost[k] = 1 :: else fi;
	held[k] = 0; orphan[k] = 0
}
#define flush d_step { fault && sum(is_held) > 0 -> faults++; \
	for (k : 0 .. IDS - 1) { forget(k); replica[k] = 0 } k = 0; stepped = 0; check() }

#ifdef REPLICA
#define replicate d_step { for (k : 0 .. IDS - 1) { replica[k] = held[k] } k = 0; check() }
#ifdef KEEPS	/* a mistake: units that come back with the replica are held for ever */
#define came_back (HOLD + 1 + STEP)
#else
#define came_back replica[k]
#endif
#define failover d_step { fault -> faults++; \
	for (k : 0 .. IDS - 1) { \
		if :: replica[k] > 0 && held[k] == 0 -> held[k] = came_back \
		   :: replica[k] > 0 && held[k] > 0 -> held[k] = replica[k] \
		   :: else -> forget(k) fi \
	} k = 0; check() }
#endif

#ifdef CLOCK
#define step_back d_step { fault && sum(is_held) > 0 -> faults++; stepped = 1; \
	for (k : 0 .. IDS - 1) { if :: held[k] > 0 -> held[k] = held[k] + STEP :: else fi } \
	k = 0; check() }
#define step_forward d_step { fault && sum(is_held) > 0 -> faults++; \
	for (k : 0 .. IDS - 1) { \
		if :: held[k] > STEP -> held[k] = held[k] - STEP :: else -> forget(k) fi } \
	k = 0; check() }
#endif

/* A third of HoldTime passes. Messages that have been under way for too long are lost. */
#define dies(i) ((taking[i] == 1) + (renewal[i] == 1) + (release[i] == 1))
#define older(t) if :: t > 0 -> t-- :: else fi
#define tick d_step { faults + sum(dies) <= FAULTS -> faults = faults + sum(dies); \
	for (k : 0 .. IDS - 1) { \
		if :: held[k] == 1 -> forget(k) :: held[k] > 1 -> held[k]-- :: else fi; \
		older(taking[k]); older(renewal[k]); older(release[k]); older(replica[k]); \
		if :: state[k] == RUNNING && renewal[k] == 0 -> renewal[k] = FLIGHT + 1; late[k] = 1 \
		   :: state[k] == ENDED && release[k] == 0 -> release[k] = FLIGHT + 1 \
		   :: state[k] == AGAIN -> waits[k]--; \
			if :: waits[k] == 0 -> send_release(k) :: else fi \
		   :: else fi; \
		if :: held[k] > 0 && state[k] != RUNNING && !taking[k] && !renewal[k] -> \
			if :: orphan[k] <= HOLD -> orphan[k]++ :: else fi \
		   :: else -> orphan[k] = 0 fi \
	} k = 0; check() }

active proctype system() {
	do
	each_id(ask) each_id(take) each_id(take_without_reply) each_id(leave) each_id(renew)
	each_id(end) each_id(free) each_id(free_without_reply) each_process(crash)
	:: flush
#ifdef REPLICA
	:: replicate :: failover
#endif
#ifdef CLOCK
	:: step_back :: step_forward
#endif
	:: tick
	od
}
