/* Two relays, two lanes, a broker that loses answers and delivers late, a row that becomes visible late.
 *
 * Lane 0 holds rows 0, 1, 2 of one key in seq order, lane 1 holds row 3 of another. Sets of rows are bit masks.
 * Every row but one is committed at the start. The odd one (row 0 or 1) becomes visible later, although its seq is lower
 * than that of rows which are visible already: its transaction commits late or, with SCHED, it is a scheduled row.
 * A lease may end at any moment: no clock is trusted, and a relay that lost its lane goes on until a statement tells it.
 *
 * Checked:
 *   truth   a PUBLISHED row was stored by the broker;
 *   honest  a PENDING, HELD, RETRYABLE_FAILURE or SCHEDULED row that no open window names was never on the wire, or
 *           provably refused each time;
 *   order   first stores of a key are in seq order; rows that were visible before the odd one do not wait for it;
 *   all     when nothing can happen any more, every row is PUBLISHED.
 *
 * MUT plants a fault; docs/model.md lists them, and says which statement or function each label stands for. */
#ifndef MUT
#define MUT 0
#endif
#ifndef RELAYS
#define RELAYS 2
#endif
#ifndef EPOCHS
#define EPOCHS 3                        /* owners that lane 0 may have, one after the other */
#endif
#ifndef EPOCHS1
#define EPOCHS1 2                       /* the same for lane 1 */
#endif
#ifndef LOSSES
#define LOSSES 2                        /* sends that go wrong */
#endif
#ifndef CRASHES
#define CRASHES 1                       /* relays killed */
#endif

#define PENDING 0
#define AMB 1
#define RETRY 2
#define HELD 3
#define PUB 4
#define SCHEDULED 5
#define NONE 6                          /* not committed yet */

#define DEAD 3
#define L0 7
#define L1 8
#define BIT(r) (1 << (r))

/* the database */
byte st[4]; byte owner[2]; byte epoch[2];
byte wr = 0;                            /* window_lo..window_hi of both lanes, as the rows that they cover */
byte wi = 0;                            /* window_ids of both lanes */
byte late;                              /* the odd row */
/* the broker and the network */
byte stored = 0;                        /* rows that the broker has */
byte wire = 0;                          /* copies on their way: they arrive whenever they like */
byte losses = 0; byte crashes = 0;
#ifndef STRAY
#define STRAY 0
#endif
#if STRAY
/* A statement about lane 0's window that its relay gave up without an answer, and that the server runs later, under the
 * same owner and epoch if those still stand: 1 claim, 2 clean, 4 give back, 8 take-over; 16 the end of a record. */
byte zkind = 0, zepoch = 0, zr = 0, zi = 0, zcur = 0;
bit zused = 0;
bit znew = 0;                           /* a statement with a higher number was written since, under the same lease */
#define STRAYS (!zused)
#define GIVE_UP(kind) zused = 1; zkind = kind; zepoch = my[0]
#endif

#define WAITS(r) (st[r] == AMB || st[r] == RETRY || st[r] == HELD)
#define WAITING0 (WAITS(0) || WAITS(1) || WAITS(2))
#define NEXT(s) (((s) <= 0 && st[0] == PENDING) -> 0 : (((s) <= 1 && st[1] == PENDING) -> 1 : (((s) <= 2 && st[2] == PENDING) -> 2 : 9)))
/* the same without the odd row, which the low mark hides */
#define ABOVE_LOW ((late != 0 && st[0] == PENDING) -> 0 : ((late != 1 && st[1] == PENDING) -> 1 : (st[2] == PENDING -> 2 : 9)))
#define UNSENT(r, from) (((r) >= (from) && st[r] == PENDING) -> BIT(r) : 0)
#define SPAN(m) ((((m) & 5) == 5) -> ((m) | 2) : (m))

inline store(x) {
  assert(!(x == 1 && late != 0 && !(stored & 1)));
  assert(!(x == 2 && late != 0 && !(stored & 1)));
  assert(!(x == 2 && late != 1 && !(stored & 2)));
  stored = stored | BIT(x)
}
#define SAYS_UNSENT(r) ((st[r] == PENDING && !(wr & BIT(r))) || ((st[r] == HELD || st[r] == RETRY) && !(wi & BIT(r))) || st[r] == SCHEDULED)
#define HONEST(r) (!(SAYS_UNSENT(r) && ((stored | wire) & BIT(r))))
#define TRUTH(r) (!(st[r] == PUB && !(stored & BIT(r))))
inline check() {
  assert(TRUTH(0) && TRUTH(1) && TRUTH(2) && TRUTH(3));
  assert(HONEST(0) && HONEST(1) && HONEST(2) && HONEST(3))
}

#define HANDS (q | d | a | f | hd)
#define OWNS(l) (owner[l] == me && epoch[l] == my[l])
#define TAKES (my[0] == 0 && !(HANDS & L0) && epoch[0] < EPOCHS && (epoch[0] > 0 || me == 1) && (MUT != 12 || owner[0] != me))
#define SENDS ((q & L0) && !((a | f) & L0 && MUT != 4))
#define SENDS1 (my[1] && !(HANDS & L1) && st[3] != PUB)
#define NOT_LAST (!(my[0] && OWNS(0) && epoch[0] == EPOCHS) && !(my[1] && OWNS(1) && epoch[1] == EPOCHS1))

/* a lane with nothing in hand is read anew, wherever the cursor stood */
inline dry() {
  if :: !(HANDS & L0) && MUT != 7 -> cur = 0; must = 0 :: else fi
}

/* lane 0 is lost or given back: what was not sent is let go */
inline lose0() {
  my[0] = 0; ready = 0; blocked = 0; veiled = 0; cur = 0; must = 0;
  q = q & L1; hd = 0; a = a & L1; f = f & L1; b = b & (d | L1)
}
inline lose1() { my[1] = 0; a = a & L0; f = f & L0; b = b & (L0 | d) }

inline mark(x, range, ids) {
  if
  :: (range & BIT(x)) && st[x] == PENDING -> st[x] = AMB
  :: (ids & BIT(x)) && st[x] != PUB && MUT != 5 -> st[x] = AMB
  :: else
  fi
}

/* a statement about lane 0's window is written: the number that stands there rises */
inline numbered() {
#if STRAY
  if :: zkind && epoch[0] == zepoch -> znew = 1 :: else fi
#else
  skip
#endif
}

/* lane 0's window becomes the union of what this process remembers and of what it claims now */
inline window(range, ids) {
  if
  :: MUT != 2 ->
     wr = (wr & L1) | SPAN(((HANDS & ~b) & L0) | (range));
     wi = (wi & L1) | (HANDS & b & L0) | (ids)
  :: else
  fi;
  numbered()
}

/* a PENDING row of lane 0 was read */
inline claim(x) {
  if
  :: OWNS(0) ->
     window(BIT(x), 0);
     if :: blocked && MUT != 4 -> hd = hd | BIT(x) :: else -> q = q | BIT(x) fi;
     cur = x + 1
  :: else -> lose0()
  fi;
  check()
}

/* a row of lane 0 did not get through: what is behind it waits in the table */
inline broken() {
  blocked = 1;
  if :: MUT != 4 -> hd = hd | (q & L0 & ~b); q = q & L1 :: else fi
}

#define CONFIRMED 0                     /* stored, answered */
#define UNANSWERED 1                    /* stored, the answer is lost */
#define DELAYED 2                       /* given up, arrives later */
#define REFUSED 3                       /* refused, and that is proved */
#define NOT_SENT 4                      /* never left: all stays as it was */

inline send0(how) {
  r = ((q & 1) -> 0 : ((q & 2) -> 1 : 2));
  q = q & ~BIT(r);
  if :: how != CONFIRMED -> losses++ :: else fi;
  if
  :: how == CONFIRMED -> store(r); d = d | BIT(r)
  :: how == UNANSWERED -> store(r); a = a | BIT(r); broken()
  :: how == DELAYED -> wire = wire | BIT(r); a = a | BIT(r); broken()
  :: how == REFUSED -> f = f | BIT(r); broken()
  :: how == NOT_SENT -> q = q & L1; b = b & (HANDS & ~BIT(r)); must = (MUT != 11); dry()
  fi;
  r = 0; check()
}
inline send1(how) {
  if
  :: OWNS(1) ->
#if MUT != 2
     if :: st[3] == PENDING -> wr = wr | L1 :: else -> wi = wi | L1 fi;
#endif
#if MUT == 10
     if :: st[3] != PENDING -> b = b | L1 :: else fi;
#endif
     if :: how != CONFIRMED -> losses++ :: else fi;
     if
     :: how == CONFIRMED -> store(3); d = d | L1
     :: how == UNANSWERED -> store(3); a = a | L1
     :: how == REFUSED -> f = f | L1
     fi
  :: else -> lose1()
  fi;
  check()
}

inline outcome(x) {
  if
  :: (d & BIT(x)) -> st[x] = PUB
  :: (a & BIT(x)) && st[x] != PUB -> st[x] = (MUT == 3 -> PENDING : AMB)
  :: (f & BIT(x)) && (st[x] == PENDING || st[x] == HELD) -> st[x] = RETRY   /* a row in doubt stays AMBIGUOUS */
#if MUT == 1 || MUT == 10
  :: (f & BIT(x)) && st[x] == AMB && !(b & BIT(x)) -> st[x] = RETRY         /* it was PENDING when this relay read it */
#endif
  :: else
  fi
}
/* a stale owner changes nothing; but what the broker confirmed is true */
inline lateConfirmed(x) {
  if :: (d & BIT(x)) -> st[x] = PUB :: else fi
}

#if MUT == 1
#define FENCE0 true
#define FENCE1 true
#elif MUT == 10
#define FENCE0 (OWNS(0) || OWNS(1))
#define FENCE1 FENCE0
#else
#define FENCE0 OWNS(0)
#define FENCE1 OWNS(1)
#endif

inline record0(ok) {
  if
  :: ok ->
#if STRAY & 16
     /* tried once without an answer, and done again: run late, the first finds other versions and should close nothing */
     if :: STRAYS && (b & (d | a | f) & L0) -> GIVE_UP(16); zi = b & (d | a | f) & L0 :: true fi;
#endif
#if MUT == 9
     r = SPAN(d & L0);
     if :: (r & 1) && st[0] == PENDING -> st[0] = PUB :: else fi;
     if :: (r & 2) && st[1] == PENDING -> st[1] = PUB :: else fi;
     r = 0;
#endif
     outcome(0); outcome(1); outcome(2);
     wi = wi & ~((d | a | f) & L0)
  :: else ->
     lateConfirmed(0); lateConfirmed(1); lateConfirmed(2)
  fi;
  b = b & ~((d | a | f) & L0); d = d & L1; a = a & L1; f = f & L1;
  if :: !OWNS(0) -> lose0() :: else fi
}
inline record1(ok) {
  if
  :: ok -> outcome(3); wi = wi & L0
  :: else -> lateConfirmed(3)
  fi;
  b = b & L0; d = d & L0; a = a & L0; f = f & L0;
  if :: !OWNS(1) -> lose1() :: else fi
}

proctype relay(byte me) {
  byte my[2];                           /* epoch of the lease; 0: none */
  bit ready = 0;                        /* lane 0: the former owner's window is taken over */
  bit blocked = 0;                      /* lane 0: its key is blocked */
  bit veiled = 0;                       /* lane 0: the low mark is above the odd row */
  bit must = 0;                         /* lane 0: it must run dry before it is read again */
  byte cur = 0;                         /* lane 0: rows from here on were not read */
  byte q = 0, d = 0, a = 0, f = 0, hd = 0; /* rows in hand: to send, confirmed, ambiguous, refused, to set aside */
  byte b = 0;                           /* those of lane 0 that the window names by id */
  byte r = 0;
#if MUT == 8
  byte seenr = 0, seeni = 0; bit looked = 0;
#endif
end:
  do
  /* take */
#if MUT == 8
  :: d_step { TAKES && !looked -> looked = 1; seenr = wr & L0; seeni = wi & L0 }
  :: d_step { TAKES && looked -> looked = 0; owner[0] = me; epoch[0]++; my[0] = epoch[0] }
#else
  :: d_step { TAKES -> owner[0] = me; epoch[0]++; my[0] = epoch[0] }
#endif
  :: d_step { TAKES && losses < LOSSES && epoch[0] + 1 < EPOCHS -> losses++; owner[0] = me; epoch[0]++ }   /* the answer is lost */
  /* takeover */
  :: d_step { my[0] && !ready ->
     if
     :: OWNS(0) ->
#if MUT == 8
        mark(0, seenr, seeni); mark(1, seenr, seeni); mark(2, seenr, seeni); seenr = 0; seeni = 0;
#else
        mark(0, wr, wi); mark(1, wr, wi); mark(2, wr, wi);
#endif
        wr = wr & L1; wi = wi & L1; numbered();
        blocked = WAITING0; ready = 1
     :: else -> lose0()
     fi; check() }
  /* claim dry */
#if MUT == 7
  :: d_step { ready && !hd && NEXT(cur) < 9 -> r = NEXT(cur); claim(r); r = 0 }
#else
  :: d_step { ready && !(HANDS & L0) && NEXT(0) < 9 -> r = NEXT(0); veiled = (r > late); claim(r); r = 0 }
  /* claim low */
  :: d_step { ready && !(HANDS & L0) && veiled && ABOVE_LOW != NEXT(0) && ABOVE_LOW < 9 -> r = ABOVE_LOW; claim(r); r = 0 }
  /* claim cursor */
  :: d_step { ready && (HANDS & L0) && !must && !hd && NEXT(cur) < 9 -> r = NEXT(cur); claim(r); r = 0 }
  /* claim behind: a row that became visible behind the cursor */
  :: d_step { ready && (HANDS & L0) && !must && !hd && cur > late && st[late] == PENDING && !(HANDS & BIT(late)) ->
     r = cur; claim(late); if :: OWNS(0) -> cur = r :: else fi; r = 0 }
#endif
#if STRAY & 1
  /* given up: claim */
  :: d_step { ready && OWNS(0) && !hd && !must && STRAYS ->
     GIVE_UP(1); zr = HANDS & ~b & L0; zi = HANDS & b & L0; zcur = ((HANDS & L0) -> cur : 0) }
#endif
#if STRAY & 2
  /* clean */
  :: d_step { ready && OWNS(0) && !(HANDS & L0) && ((wr | wi) & L0) -> wr = wr & L1; wi = wi & L1; numbered(); check() }
  /* given up: clean */
  :: d_step { ready && OWNS(0) && !(HANDS & L0) && STRAYS -> GIVE_UP(2) }
#endif
#if STRAY & 4
  /* given up: give back */
  :: d_step { ready && OWNS(0) && !(HANDS & L0) && epoch[0] < EPOCHS && STRAYS -> GIVE_UP(4) }
#endif
#if STRAY & 8
  /* given up: take-over */
  :: d_step { my[0] && !ready && OWNS(0) && STRAYS -> GIVE_UP(8) }
#endif
  /* look */
  :: d_step { ready && blocked && !(HANDS & L0) ->
     if
     :: !OWNS(0) -> lose0()
     :: OWNS(0) && !WAITING0 -> blocked = 0
     :: OWNS(0) && WAITING0 ->
        r = (WAITS(0) -> 0 : (WAITS(1) -> 1 : 2));
        window(0, BIT(r)); q = q | BIT(r); b = b | BIT(r); r = 0
     fi; check() }
#if MUT == 6
  :: d_step { ready && blocked && !(HANDS & L0) && OWNS(0) && st[2] == AMB ->
     window(0, BIT(2)); q = q | BIT(2); b = b | BIT(2); check() }
#endif
  /* send */
  :: d_step { SENDS -> send0(CONFIRMED) }
  :: d_step { SENDS && losses < LOSSES -> send0(UNANSWERED) }
  :: d_step { SENDS && losses < LOSSES && !(wire & (q & -q)) -> send0(DELAYED) }
  :: d_step { SENDS && losses < LOSSES -> send0(REFUSED) }
  :: d_step { SENDS && losses < LOSSES -> send0(NOT_SENT) }
  /* record */
  :: d_step { (d | a | f) ->
     if :: (d | a | f) & L0 -> record0(FENCE0) :: else fi;
     if :: (d | a | f) & L1 -> record1(FENCE1) :: else fi;
     dry(); check() }
  /* hold */
  :: d_step { hd ->
     if
     :: OWNS(0) ->
        if :: (hd & 1) && st[0] == PENDING -> st[0] = HELD :: else fi;
        if :: (hd & 2) && st[1] == PENDING -> st[1] = HELD :: else fi;
        if :: (hd & 4) && st[2] == PENDING -> st[2] = HELD :: else fi;
        hd = 0; dry()
     :: else -> lose0()
     fi; check() }
  /* giveback */
  :: d_step { ready && !(HANDS & L0) && epoch[0] < EPOCHS ->
     if :: OWNS(0) -> owner[0] = 0; wr = wr & L1; wi = wi & L1; numbered() :: else fi; lose0(); check() }
#ifdef SCHED
  /* release */
  :: d_step { ready && OWNS(0) && st[late] == SCHEDULED ->
     st[late] = PENDING; veiled = 0; must = ((HANDS & L0) != 0); check() }
#endif
  /* lane1 take */
  :: d_step { my[1] == 0 && !(HANDS & L1) && epoch[1] < EPOCHS1 ->
     owner[1] = me; epoch[1]++; my[1] = epoch[1];
     mark(3, wr, wi); wr = wr & L0; wi = wi & L0; check() }
  /* lane1 send */
  :: d_step { SENDS1 -> send1(CONFIRMED) }
  :: d_step { SENDS1 && losses < LOSSES -> send1(UNANSWERED) }
  :: d_step { SENDS1 && losses < LOSSES -> send1(REFUSED) }
  /* crash */
  /* killed; started again it is somebody else, who knows nothing; the lanes still name the dead one */
  :: d_step { crashes < CRASHES && (my[0] || my[1]) && NOT_LAST ->
     if :: owner[0] == me -> owner[0] = DEAD :: else fi;
     if :: owner[1] == me -> owner[1] = DEAD :: else fi;
     crashes++; d = 0; q = 0; a = 0; f = 0; b = 0; lose0(); lose1() }
  od
}

/* a late copy; its sender, lease or not, may hear of it: a late CONFIRMED */
inline arrive(x, heard) {
  wire = wire & ~BIT(x); store(x);
  if :: heard -> st[x] = PUB :: else fi;
  check()
}

proctype net() {
end:
  do
  :: d_step { (wire & 1) -> arrive(0, 0) }
  :: d_step { (wire & 2) -> arrive(1, 0) }
  :: d_step { (wire & 4) -> arrive(2, 0) }
  :: d_step { (wire & 1) -> arrive(0, 1) }
  :: d_step { (wire & 2) -> arrive(1, 1) }
  :: d_step { (wire & 4) -> arrive(2, 1) }
#if STRAY
  /* the server runs the statement that was given up; a dead owner's lane still has its owner and epoch */
  :: d_step { zkind ->
     if
     :: owner[0] && epoch[0] == zepoch && (!znew || MUT == 13) ->
        if
        :: zkind == 1 && NEXT(zcur) < 9 ->
           wr = (wr & L1) | SPAN(zr | UNSENT(0, zcur) | UNSENT(1, zcur) | UNSENT(2, zcur)); wi = (wi & L1) | zi
        :: zkind == 2 -> wr = wr & L1; wi = wi & L1
        :: zkind == 4 -> owner[0] = 0; wr = wr & L1; wi = wi & L1
        :: zkind == 8 -> mark(0, wr, wi); mark(1, wr, wi); mark(2, wr, wi); wr = wr & L1; wi = wi & L1
        :: zkind == 16 -> wi = wi & ~zi
        :: else
        fi
     :: else
     fi;
     zkind = 0; zepoch = 0; zr = 0; zi = 0; zcur = 0; znew = 0; check() }
#endif
#ifndef SCHED
  :: d_step { st[late] == NONE -> st[late] = PENDING }   /* the late transaction commits */
#endif
  :: timeout -> assert(st[0] == PUB && st[1] == PUB && st[2] == PUB && st[3] == PUB); break
  od
}

init {
  atomic {
#ifdef LATE
    late = LATE;
#else
    if :: late = 0 :: late = 1 fi;
#endif
#ifdef SCHED
    st[late] = SCHEDULED;
#else
    st[late] = NONE;
#endif
    if :: EPOCHS1 == 0 -> st[3] = PUB; stored = L1 :: else fi;      /* lane 0 alone */
    run relay(1); if :: RELAYS == 2 -> run relay(2) :: else fi; run net()
  }
}
