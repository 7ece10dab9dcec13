package messaging

import "time"

// ClaimCheckReference stands for a payload that lies in an object store beside
// the message. On the wire it is compact JSON with these names. It holds no URL:
// a consumer fetches with its own credential.
type ClaimCheckReference struct {
	Store       string    `json:"store"`
	ObjectID    string    `json:"objectId"`
	Size        int64     `json:"size"`
	Algorithm   string    `json:"checksumAlgorithm"`
	Checksum    string    `json:"checksum"`
	ContentType string    `json:"contentType"`
	ExpiresAt   time.Time `json:"expiresAt"`
}
