package messaging

// words are the contract's words of one enum, in the order of its values from 1.
type words []string

func (w words) text(v uint8) string {
	if v == 0 {
		return "UNSET"
	}
	if int(v) > len(w) {
		return "INVALID"
	}
	return w[v-1]
}

func (w words) marshal(what string, v uint8) ([]byte, error) {
	if v == 0 || int(v) > len(w) {
		return nil, invalid(what, "is unset")
	}
	return []byte(w[v-1]), nil
}

func parseWord[E ~uint8](what string, w words, s string) (E, error) {
	for i, word := range w {
		if word == s {
			return E(i + 1), nil
		}
	}
	return 0, invalid(what, "is not one of the contract's words")
}
