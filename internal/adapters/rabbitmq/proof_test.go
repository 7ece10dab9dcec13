package rabbitmq

import "testing"

func TestTopicMatches(t *testing.T) {
	cases := []struct {
		pattern, key string
		want         bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a.c", false},
		{"a.b", "a.b.c", false},
		{"a.*", "a.b", true},
		{"a.*", "a", false},
		{"a.*", "a.b.c", false},
		{"#", "", true},
		{"#", "a.b.c", true},
		{"a.#", "a", true},
		{"a.#", "a.b.c", true},
		{"a.#.z", "a.z", true},
		{"a.#.z", "a.b.c.z", true},
		{"a.#.z", "a.b.c", false},
		{"*", "", false},
		{"", "", true},
		{"", "a", false},
		{"#.*", "a", true},
		{"#.*", "", false},
		{"*.#", "a.b", true},
		{"a", "A", false},
	}
	for _, c := range cases {
		if got := topicMatches(c.pattern, c.key); got != c.want {
			t.Errorf("%q matches %q = %v, want %v", c.pattern, c.key, got, c.want)
		}
	}
}

func TestReachableAndJudge(t *testing.T) {
	queue := func(name, key string) bindingView { return bindingView{name, "queue", key} }
	toExchange := bindingView{"other", "exchange", "k"}
	quorum := queueView{Type: "quorum"}
	classic := queueView{Type: "classic"}
	byArgument := queueView{Type: "quorum", Arguments: map[string]any{"x-overflow": "reject-publish"}}
	byPolicy := queueView{Type: "quorum", Policy: map[string]any{"overflow": "reject-publish-dlx"}}
	dropHead := queueView{Type: "quorum", Policy: map[string]any{"overflow": "drop-head", "max-length": 5}}
	all := map[string]queueView{"q": quorum, "q2": quorum, "c": classic, "a": byArgument, "p": byPolicy, "d": dropHead}

	fixed := proofKey{exchange: "e", routingKey: "k"}
	perMessage := proofKey{exchange: "e", perMessage: true}
	cases := map[string]struct {
		key      proofKey
		exchange exchangeView
		bindings []bindingView
		want     proof
	}{
		"direct, one quorum queue":        {fixed, exchangeView{Type: "direct"}, []bindingView{queue("q", "k"), queue("c", "other")}, proof{true, true}},
		"bound twice":                     {fixed, exchangeView{Type: "topic"}, []bindingView{queue("q", "k"), queue("q", "#")}, proof{true, true}},
		"nothing bound":                   {fixed, exchangeView{Type: "direct"}, []bindingView{queue("q", "other")}, proof{}},
		"classic":                         {fixed, exchangeView{Type: "direct"}, []bindingView{queue("c", "k")}, proof{}},
		"quorum and classic":              {fixed, exchangeView{Type: "direct"}, []bindingView{queue("q", "k"), queue("c", "k")}, proof{}},
		"two quorum queues":               {fixed, exchangeView{Type: "direct"}, []bindingView{queue("q", "k"), queue("q2", "k")}, proof{true, false}},
		"reject-publish by argument":      {fixed, exchangeView{Type: "direct"}, []bindingView{queue("a", "k")}, proof{true, false}},
		"reject-publish by policy":        {fixed, exchangeView{Type: "direct"}, []bindingView{queue("p", "k")}, proof{true, false}},
		"drop-head":                       {fixed, exchangeView{Type: "direct"}, []bindingView{queue("d", "k")}, proof{true, true}},
		"topic":                           {fixed, exchangeView{Type: "topic"}, []bindingView{queue("q", "*"), queue("c", "x.#")}, proof{true, true}},
		"fanout ignores the key":          {fixed, exchangeView{Type: "fanout"}, []bindingView{queue("q", ""), queue("c", "x")}, proof{}},
		"leads into an exchange":          {fixed, exchangeView{Type: "direct"}, []bindingView{queue("q", "k"), toExchange}, proof{}},
		"alternate unused, key is bound":  {fixed, exchangeView{Type: "direct", Policy: "p"}, []bindingView{queue("q", "k")}, proof{true, true}},
		"own keys":                        {perMessage, exchangeView{Type: "direct"}, []bindingView{queue("q", "k"), queue("q2", "l")}, proof{true, false}},
		"own keys, one queue":             {perMessage, exchangeView{Type: "direct"}, []bindingView{queue("q", "k")}, proof{true, false}},
		"own keys, one classic":           {perMessage, exchangeView{Type: "direct"}, []bindingView{queue("q", "k"), queue("c", "l")}, proof{}},
		"own keys, alternate by argument": {perMessage, exchangeView{Type: "direct", Arguments: map[string]any{"alternate-exchange": "x"}}, []bindingView{queue("q", "k")}, proof{}},
		"own keys, alternate by policy":   {perMessage, exchangeView{Type: "topic", Policy: "p"}, []bindingView{queue("q", "k")}, proof{}},
		"own keys over a foreign type":    {perMessage, exchangeView{Type: "x-delayed-message"}, []bindingView{queue("q", "k")}, proof{}},
		"headers":                         {fixed, exchangeView{Type: "headers"}, []bindingView{queue("q", "")}, proof{true, true}},
		"a type that keeps messages":      {fixed, exchangeView{Type: "x-delayed-message"}, []bindingView{queue("q", "k")}, proof{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			names, known := reachable(c.key, &c.exchange, c.bindings)
			var got proof
			if known {
				views := make([]queueView, len(names))
				for i, n := range names {
					views[i] = all[n]
				}
				got = judge(c.key, views)
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
