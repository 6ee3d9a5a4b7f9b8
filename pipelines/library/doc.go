// Package library holds five applications to try Harpagon on, declared in the
// HCL files of this folder, together with synthetic profiles.
//
// They are the applications that the Harpagon paper (section IV-A) evaluates
// with: traffic, face, pose, caption and actdet. The paper names the networks
// and what they are for; which module feeds which, and how many requests it
// gets, is our reading:
//
//	traffic   detect -> vehicle, pedestrian          a fork, with fan-out
//	face      detect -> keypoints                    a chain, with fan-out
//	pose      parts -> recognise                     a chain
//	caption   features -> encode -> decode           a chain
//	actdet    detect -> identity, motion -> action   a fork and a join
//
// The profiles were measured on nothing. They follow duration = start +
// step·batch^0.97, where small devices start nearly as fast as large ones and
// need more for every further request, so that small devices are the cheaper
// ones for small batches and large devices for large ones.
//
// Users name the folder on the command line (harpagon plan pipelines/library);
// Go programs get the same from Document, which needs no files at hand.
package library
