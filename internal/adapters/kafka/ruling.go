package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
)

// step is what follows from one write of a batch.
type step uint8

const (
	// stored: the broker has the batch.
	stepStored step = iota + 1
	// again: it is known not to be stored; the write may be repeated, changed even.
	stepAgain
	// unsure: it may be stored; only the very same batch may be written again.
	stepUnsure
	// renew: it is not stored and the producer's session is refused: a new session,
	// then again.
	stepRenew
	// split: one of the batch's records, or their sum, is refused, and all with it.
	stepSplit
	// refuse: nothing of the batch is stored, for a cause that concerns all of it.
	stepRefuse
	// giveUp: it cannot be told and another write cannot tell it either.
	stepGiveUp
)

// ruling is a step with the reason for it.
type ruling struct {
	step  step
	cause *cause
}

// rulings says what a broker's code in the answer to a batch proves, where no
// earlier write of the same batch is without answer. Codes that are not named prove
// nothing: see judge.
//
// NOT_LEADER_OR_FOLLOWER is deliberately not among the proofs: a leader that loses
// its office while it waits for replicas answers so after its append.
var rulings = map[int16]ruling{
	0: {stepStored, nil},

	kerr.NotEnoughReplicas.Code:       {stepAgain, causeReplicas},
	kerr.UnknownTopicOrPartition.Code: {stepAgain, causeNoTopic},
	kerr.CorruptMessage.Code:          {stepAgain, causeRecord}, // checksum before append: damaged on its way
	kerr.ThrottlingQuotaExceeded.Code: {stepRefuse, causeThrottled},

	kerr.MessageTooLarge.Code:    {stepSplit, causeTooMuch},
	kerr.RecordListTooLarge.Code: {stepSplit, causeTooMuch},
	kerr.InvalidRecord.Code:      {stepSplit, causeRecord},
	kerr.InvalidTimestamp.Code:   {stepSplit, causeRecord},

	kerr.OutOfOrderSequenceNumber.Code: {stepRenew, causeSessionLost},
	kerr.UnknownProducerID.Code:        {stepRenew, causeSessionLost},
	kerr.InvalidProducerEpoch.Code:     {stepRenew, causeSessionLost},
	kerr.InvalidProducerIDMapping.Code: {stepRenew, causeSessionLost},
	kerr.ProducerFenced.Code:           {stepRenew, causeSessionLost},

	kerr.TopicAuthorizationFailed.Code:    {stepRefuse, causeNotAuthorized},
	kerr.ClusterAuthorizationFailed.Code:  {stepRefuse, causeNoRights},
	kerr.InvalidTopicException.Code:       {stepRefuse, causeBadTopic},
	kerr.UnsupportedVersion.Code:          {stepRefuse, causeUnsupported},
	kerr.UnsupportedForMessageFormat.Code: {stepRefuse, causeUnsupported},
	kerr.InvalidRequiredAcks.Code:         {stepRefuse, causeUnsupported},
	kerr.PolicyViolation.Code:             {stepRefuse, causeUnsupported},

	kerr.RequestTimedOut.Code:                    {stepUnsure, causeNoConfirm},
	kerr.NotEnoughReplicasAfterAppend.Code:       {stepUnsure, causeNoConfirm},
	kerr.NotLeaderForPartition.Code:              {stepUnsure, causeCannotTell},
	kerr.DuplicateSequenceNumber.Code:            {stepGiveUp, causeCannotTell},
	kerr.UnsupportedCompressionType.Code:         {stepRefuse, causeUnsupported},
	kerr.TransactionalIDAuthorizationFailed.Code: {stepRefuse, causeNoRights},
}

// judge rules on one write. unsure tells that an earlier write of the same batch is
// without answer: then a refusal of the later one proves nothing about the earlier,
// and only "stored" does.
func judge(a answer, unsure bool) ruling {
	var r ruling
	switch {
	case a.err == nil:
		var known bool
		if r, known = rulings[a.part.ErrorCode]; !known {
			r = ruling{stepUnsure, causeCannotTell}
		}
		if unsure && a.part.ErrorCode == kerr.DuplicateSequenceNumber.Code {
			return ruling{stepStored, nil} // the earlier write is what it duplicates
		}
	case a.begun:
		r = ruling{stepUnsure, lostCause(a.err)}
	default:
		return unasked(connectCause(a.err), unsure)
	}
	if !unsure {
		return r
	}
	switch r.step {
	case stepAgain:
		return ruling{stepUnsure, nil} // this write added nothing; the doubt stays as it was
	case stepRenew, stepSplit, stepRefuse:
		return ruling{stepGiveUp, causeCannotTell}
	default:
		return r
	}
}

// unasked rules on a write that did not take place.
func unasked(c *cause, unsure bool) ruling {
	switch {
	case unsure:
		return ruling{stepUnsure, nil} // the way to the broker may open again
	case c != nil && c.lasting:
		return ruling{stepRefuse, c}
	default:
		return ruling{stepAgain, c}
	}
}
