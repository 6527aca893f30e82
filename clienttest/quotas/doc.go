// Package quotas has no code: its tests call a server that limits the requests in a
// second by the official clients of two language models, in virtual time.
package quotas
