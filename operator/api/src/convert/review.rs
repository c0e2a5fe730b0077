//! Answers an API server's request to convert objects.

use kube::core::Status;
use kube::core::conversion::{ConversionRequest, ConversionResponse, ConversionReview};

use super::convert;

/// The answer to a review: all objects in the version that is asked for, in their order, or the reason why one cannot be.
pub fn review(review: ConversionReview) -> ConversionReview {
    let request = match ConversionRequest::from_review(review) {
        Ok(request) => request,
        Err(error) => return ConversionResponse::invalid(Status::failure(&error.to_string(), "BadRequest")).into(),
    };
    let converted = request.objects.iter().map(|object| convert(object.clone(), &request.desired_api_version));
    let converted = converted.collect::<Result<_, _>>();
    let response = ConversionResponse::for_request(request);
    match converted {
        Ok(objects) => response.success(objects),
        Err(error) => response.failure(Status::failure(&error.to_string(), "Invalid")),
    }
    .into()
}
