// Package recording keeps the events that dispatch policies received and the actions they
// returned, and replays them. A recorded minute of production is a test case: the same
// events must give the same actions, and Replay returns the first difference.
//
//	recording.go  what a driver holds beside a policy: the latest events in bounded memory;
//	              a recording as a file: versioned, self-contained, checked
//	codec.go      events and actions as bytes
//	replay.go     replays a recording
//
// # Format
//
// A file is a header of eight bytes, "HARPREC" and the version, and frames after it. A frame is a
// letter, the length of its content (uvarint), the content, and a checksum of letter and content
// (CRC-32, IEEE, little endian):
//
//	'r'  JSON: Head, what the recording is of
//	's'  JSON: a station follows; its name
//	'p'  JSON: a part of it follows: the Spec of its policy, and the policy's state where the
//	     part does not begin with a new policy
//	'e'  the part's events and actions
//	'z'  the end, with the number of frames before it
package recording
