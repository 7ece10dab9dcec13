package config

// The places of what a consumer hands over: its DLQ, its retry stages and its parking places. Two logical names may mean
// one physical place, so places are compared, not names.

// samePlace tells whether what is published to one of them may be read where the other is read.
func samePlace(a, b Destination) bool {
	if a.Broker != b.Broker {
		return false
	}
	p, q := a.Physical, b.Physical
	return p.Topic != "" && p.Topic == q.Topic || p.Queue != "" && p.Queue == q.Queue ||
		p.Exchange != "" && p.Exchange == q.Exchange && p.RoutingKey == q.RoutingKey && p.RoutingKeyFrom == q.RoutingKeyFrom
}

func (k *checker) dlq(at string, consumer Consumer, dest Destination) {
	place, target := at+".dlq.destination", consumer.DLQ.Destination
	handedOver := k.isDLQ(dest) || k.isParking(dest)
	switch {
	case target == "" && k.set(at+".dlq"):
		k.find(place, "is missing; name the destination")
		return
	case target == "":
		if k.c.Messaging.Environment == Production && dest.Guarantees.Delivery == AtLeastOnce && !handedOver {
			k.find(at+".dlq", "is missing; an at-least-once consumer in production needs one")
		}
		return
	case dest.Guarantees.Delivery == AtMostOnce:
		k.find(at+".dlq", "an AT_MOST_ONCE destination has no DLQ: its failures are discarded")
		return
	case target == consumer.Destination:
		k.find(place, "points at the destination that the consumer reads")
		return
	}
	to, ok := reference(k, place, target, "messaging.destinations", k.c.Messaging.Destinations)
	switch {
	case !ok:
	case to.Broker != dest.Broker:
		k.find(place, "%s is on another broker than %s", target, consumer.Destination)
	case samePlace(to, dest):
		k.find(place, "%s is the same place as %s, which the consumer reads", target, consumer.Destination)
	case handedOver:
		k.find(place, "%s is itself a dead-letter or parking destination, which has none", consumer.Destination)
	}
}

func (k *checker) isDLQ(dest Destination) bool {
	for _, consumer := range k.c.Messaging.Consumers {
		if to, ok := k.c.Messaging.Destinations[consumer.DLQ.Destination]; ok && samePlace(to, dest) {
			return true
		}
	}
	return false
}

func (k *checker) isParking(dest Destination) bool {
	all := []ParkingPlaces{k.c.Messaging.Parking}
	for _, consumer := range k.c.Messaging.Consumers {
		all = append(all, consumer.Parking)
	}
	for _, places := range all {
		for _, name := range places.names() {
			if to, ok := k.c.Messaging.Destinations[name]; ok && samePlace(to, dest) {
				return true
			}
		}
	}
	return false
}

// names are the places by their keys in the file.
func (p ParkingPlaces) names() map[string]string {
	return map[string]string{"schema": p.Schema, "security": p.Security, "manual-review": p.ManualReview}
}

// over gives base with what the consumer sets itself.
func (p ParkingPlaces) over(base ParkingPlaces) ParkingPlaces {
	return ParkingPlaces{
		Schema:       orWord(p.Schema, base.Schema),
		Security:     orWord(p.Security, base.Security),
		ManualReview: orWord(p.ManualReview, base.ManualReview),
	}
}

// parking checks the places that hold for every consumer which names none itself.
func (k *checker) parking() {
	for key, name := range each(k.c.Messaging.Parking.names()) {
		if name != "" {
			reference(k, "messaging.parking."+key, name, "messaging.destinations", k.c.Messaging.Destinations)
		}
	}
}

// consumerParking checks the places that one consumer parks in.
func (k *checker) consumerParking(at string, consumer Consumer, dest Destination) {
	if _, known := k.c.Messaging.Brokers[dest.Broker]; !known {
		return
	}
	own, common := consumer.Parking.names(), k.c.Messaging.Parking.names()
	for key, name := range each(consumer.Parking.over(k.c.Messaging.Parking).names()) {
		place := at + ".parking." + key
		if own[key] == "" && common[key] != "" && k.c.Messaging.Destinations[common[key]].Broker == dest.Broker {
			place = "messaging.parking." + key
		}
		if name == "" {
			if k.c.Messaging.Environment == Production {
				k.find("messaging.parking."+key, "is missing; consumers in production need it")
			}
			continue
		}
		to, ok := k.c.Messaging.Destinations[name]
		if !ok {
			if own[key] != "" {
				reference(k, place, name, "messaging.destinations", k.c.Messaging.Destinations)
			}
			continue
		}
		switch {
		case to.Broker != dest.Broker:
			k.find(place, "%s is on another broker than %s; name a place on %s", name, consumer.Destination, dest.Broker)
		case samePlace(to, dest) && consumer.DLQ.Destination != "":
			k.find(place, "%s is the same place as %s, which a consumer reads", name, consumer.Destination)
		case k.isDLQ(to):
			k.find(place, "%s is a DLQ; parking places are separate from it", name)
		}
	}
}

// shared refuses places that two consumers would share: each could take or settle what is meant for the other.
func (k *checker) shared() {
	dlqs, stages := map[string]string{}, map[string]string{} // place -> path of the consumer that has it
	for name, consumer := range each(k.c.Messaging.Consumers) {
		at := join("messaging.consumers", name)
		dest, ok := k.c.Messaging.Destinations[consumer.Destination]
		if !ok || dest.Guarantees.Delivery == AtMostOnce {
			continue
		}
		if to, ok := k.c.Messaging.Destinations[consumer.DLQ.Destination]; ok {
			k.sharedDLQ(at, consumer.DLQ.Destination, to, dlqs)
		}
		if stage := k.retryStage(name, consumer, dest); stage != "" {
			if other, taken := stages[stage]; taken {
				k.find(at+".retry.mode", "its retry stages are those of %s.retry already; two consumers never share them", other)
			}
			stages[stage] = at
		}
	}
}

func (k *checker) sharedDLQ(at, target string, to Destination, owners map[string]string) {
	for _, name := range sortedKeys(owners) {
		if name == target || samePlace(k.c.Messaging.Destinations[name], to) {
			k.find(at+".dlq.destination", "%s is the DLQ of %s already; two consumers never share one", target, owners[name])
			return
		}
	}
	owners[target] = at
}

// retryStage is where the names of a consumer's retry stages begin, "" for a consumer without.
func (k *checker) retryStage(name string, consumer Consumer, dest Destination) string {
	if consumer.Retry.Mode != RetryDestination {
		return ""
	}
	if dest.Physical.Topic != "" {
		return dest.Broker + " " + dest.Physical.Topic + "." + name
	}
	if queue := orWord(consumer.Queue, dest.Physical.Queue); queue != "" {
		return dest.Broker + " " + queue
	}
	return ""
}
