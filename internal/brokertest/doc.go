// Package brokertest gives tests real brokers: addresses from the environment, servers of their own to kill and pause,
// topics, queues and virtual hosts that belong to one test, consumers that keep what arrives, and a TCP proxy that makes
// faults on the wire. It is for tests alone.
//
// A test that only needs a broker takes the shared one and isolates itself by name:
//
//	bootstrap := brokertest.Require(t, "KAFKA_BOOTSTRAP")
//	topic := brokertest.Topic(t, bootstrap)
//	capture := brokertest.CaptureKafka(t, bootstrap, topic)
//
//	vhost := brokertest.NewVhost(t)
//	vhost.Queue(t, "orders", nil)
//	capture := brokertest.CaptureRabbit(t, vhost.URL(), "orders")
//
// A test that kills or pauses a server starts its own:
//
//	kafka := brokertest.StartKafka(t, brokertest.KafkaOptions{Nodes: 3})
//	kafka.Kill(2)
//
// A fault at an exact place of the protocol needs neither: the client is led through a proxy.
//
//	proxy := brokertest.NewKafkaProxy(t, bootstrap)
//	lost := proxy.Trap(brokertest.CutAtAnswer, 1, nil) // stored, and nobody hears of it
//	… publish by proxy.Addr() …
//	lost.Wait(t, 10*time.Second)
package brokertest
