package retryqueue

// Judged decides by a verdict.
var Judged = Delivery.judged
