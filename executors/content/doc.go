// Package content moves the files that modules need to the hosts that run them,
// by what is in them.
//
// When a declaration is applied, Pin reads every file that a module needs (its
// model, the tensors that the model keeps beside itself, the files that a function
// or a command names) and writes digests into the module: sha256 of each. The files
// themselves go to a Store, if there is one. From then on the digest is what
// counts: a worker's Cache places files of these digests on its disk, from the
// store or from the path of the declaration, checks them, and gives engines paths
// into the cache. So a file that is replaced in place never serves under an older
// generation; applying the declaration again takes the new one.
//
// A store is a folder (Folder) or a server of this one request over HTTP:
//
//	GET /sha256/<64 hexadecimal digits>
//
// which any static file server answers. Handler serves a folder so, and takes PUT to the same
// path from `harpagon apply`.
package content
