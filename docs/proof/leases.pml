/* Leases of a sliding log. README.md beside this file says what is modelled.
 *
 *	spin -a -DLIMIT=2 leases.pml && cc -O2 -DSAFETY -DNOREDUCE -o pan pan.c && ./pan -m1000000
 *
 * A process takes a block of units from the server, spends them until a term after it asked, and
 * returns those that are left. The server counts a unit for the period and one term. Time moves
 * in ticks. The clock of a process may fall behind the server's by a tick while it has a block,
 * and its term is shorter by a tick, the slack.
 */
#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifndef LIMIT
#define LIMIT 2
#endif
#ifndef FAULTS
#define FAULTS 1	/* how many faults may happen in all */
#endif
#define PERIOD 2
#define TERM 2
#ifdef NO_SLACK	/* a mistake: the lease outlives its term by the error of the clock */
#define SLACK 0
#else
#define SLACK 1
#endif
#define COUNTS (PERIOD + TERM)	/* ticks for which the server counts a unit */

#define IDLE 0
#define ASKED 1		/* the request is under way */
#define ANSWERED 2	/* the units are charged, and the answer is under way */
#define HOLDING 3

byte state[PROCESSES];
byte units[PROCESSES];		/* asked for, answered or left */
byte passed[PROCESSES];		/* ticks since the request, by the clock of the process */
bit slow[PROCESSES];		/* the clock has fallen behind since the request */
bit stands[PROCESSES];		/* the clock stands still for a tick */
byte age[PROCESSES];		/* ticks since the block was charged, by the server's clock */
byte back[PROCESSES];		/* units that are being returned; 0: no message is under way */
byte back_age[PROCESSES];	/* ticks since these were charged */
bit late[PROCESSES];		/* the message has been under way for a tick */
bit back_late[PROCESSES];
byte log[PROCESSES * COUNTS];	/* units charged for a process, by the ticks since then */
byte replica[PROCESSES * COUNTS];	/* log, as the replica knows it */
byte faults;

/* These say what has happened, and change nothing. */
byte spent[PERIOD];	/* units spent by all, by the ticks since then */
byte forgotten;		/* units that a server has forgotten */

#define fault (faults < FAULTS)
#define in_time(p) (passed[p] <= TERM - SLACK)
#define entry(p, a) ((p) * COUNTS + (a))

#define counted(p) (log[entry(p, 0)] + log[entry(p, 1)] + log[entry(p, 2)] + log[entry(p, 3)])
#if PROCESSES == 3
#define sum(f) (f(0) + f(1) + f(2))
#define each_process(t) :: t(0) :: t(1) :: t(2)
#else
#define sum(f) (f(0) + f(1))
#define each_process(t) :: t(0) :: t(1)
#endif

byte k;	/* a counter, 0 between transitions */

/* The promise: no period sees more than the limit and what was forgotten. */
#define check() assert(spent[0] + spent[1] <= LIMIT + forgotten)

inline be_idle(p) {
	state[p] = IDLE; units[p] = 0; passed[p] = 0; slow[p] = 0; stands[p] = 0; age[p] = 0;
	late[p] = 0
}

#define ask(p, n) d_step { state[p] == IDLE && back[p] == 0 && n <= LIMIT -> \
	state[p] = ASKED; units[p] = n }
#define ask_1(p) ask(p, 1)
#define ask_2(p) ask(p, 2)
#define ask_3(p) ask(p, 3)

/* The request arrives. */
#define charge(p) d_step { state[p] == ASKED -> late[p] = 0; \
	if :: sum(counted) + units[p] <= LIMIT -> \
		log[entry(p, 0)] = log[entry(p, 0)] + units[p]; state[p] = ANSWERED \
	   :: else -> be_idle(p) fi }

inline give_back(p) {
	if :: units[p] > 0 -> back[p] = units[p]; back_age[p] = age[p] :: else fi;
	be_idle(p)
}

/* The answer arrives. After the term the units are returned. */
#define answer(p) d_step { state[p] == ANSWERED -> late[p] = 0; \
	if :: in_time(p) -> state[p] = HOLDING :: else -> give_back(p) fi }

/* The request or the answer is lost. */
#define lose(p) d_step { fault && (state[p] == ASKED || state[p] == ANSWERED) -> \
	faults++; be_idle(p) }

#define spend(p) d_step { state[p] == HOLDING && units[p] > 0 && in_time(p) -> \
	units[p]--; spent[0]++; check() }

/* The block ends: its units are spent, or its term is over. */
#define close(p) d_step { state[p] == HOLDING && (units[p] == 0 || !in_time(p)) -> give_back(p) }

inline returned(p) { back[p] = 0; back_age[p] = 0; back_late[p] = 0 }

/* Units come back to the server. It returns what the entry still has. */
#ifdef TWICE	/* a mistake: what is given back is counted twice */
#define times 2
#else
#define times 1
#endif
#define arrive_back(p) d_step { back[p] > 0 -> \
	k = times; \
	do \
	:: k > 0 && back_age[p] < COUNTS && log[entry(p, back_age[p])] >= back[p] -> \
		log[entry(p, back_age[p])] = log[entry(p, back_age[p])] - back[p]; k-- \
	:: else -> break \
	od; k = 0; returned(p) }

#define lose_back(p) d_step { fault && back[p] > 0 -> faults++; returned(p) }

/* A process dies. Another takes its place at once. */
#define crash(p) d_step { fault && state[p] != IDLE -> faults++; be_idle(p) }

/* The server loses its data. */
#define flush d_step { fault && sum(counted) > 0 -> faults++; \
	forgotten = forgotten + sum(counted); \
	for (k : 0 .. PROCESSES * COUNTS - 1) { log[k] = 0; replica[k] = 0 } k = 0 }

#ifdef REPLICA
#define replicate d_step { \
	for (k : 0 .. PROCESSES * COUNTS - 1) { replica[k] = log[k] } k = 0 }
#define failover d_step { fault -> faults++; \
	for (k : 0 .. PROCESSES * COUNTS - 1) { \
		if :: log[k] > replica[k] -> forgotten = forgotten + log[k] - replica[k] \
		   :: else fi; \
		log[k] = replica[k] \
	} k = 0 }
#endif

/* The clock of a process falls behind. */
#define fall_behind(p) d_step { state[p] != IDLE && !slow[p] -> slow[p] = 1; stands[p] = 1 }

#define is_late(p) (late[p] + back_late[p])
inline grow(p) {
	if :: state[p] == ASKED || state[p] == ANSWERED -> late[p] = 1 :: else fi;
	if :: state[p] == ANSWERED || state[p] == HOLDING -> age[p]++ :: else fi;
	if :: stands[p] -> stands[p] = 0
	   :: !stands[p] && state[p] != IDLE && passed[p] <= TERM -> passed[p]++
	   :: else fi;
	if :: age[p] > COUNTS -> age[p] = COUNTS :: else fi;
	if :: back[p] > 0 -> back_late[p] = 1; back_age[p]++ :: else fi;
	k = COUNTS - 1;
	do
	:: k > 0 -> log[entry(p, k)] = log[entry(p, k - 1)];
		replica[entry(p, k)] = replica[entry(p, k - 1)]; k--
	:: else -> break
	od;
	log[entry(p, 0)] = 0; replica[entry(p, 0)] = 0
}

/* Time passes. A message that has been under way for a tick arrives or is lost before. */
#define tick d_step { sum(is_late) == 0 -> \
	grow(0); grow(1); \
	GROW_2 \
	spent[1] = spent[0]; spent[0] = 0 }
#if PROCESSES == 3
#define GROW_2 grow(2);
#else
#define GROW_2
#endif

active proctype system() {
	do
	each_process(ask_1) each_process(ask_2) each_process(ask_3)
	each_process(charge) each_process(answer) each_process(lose) each_process(spend)
	each_process(close) each_process(arrive_back) each_process(lose_back) each_process(crash)
	each_process(fall_behind)
	:: flush
#ifdef REPLICA
	:: replicate :: failover
#endif
	:: tick
	od
}
