/* tandem.h - describe an op once, run it on a device many times.
 *
 * Rules that hold for every declaration below:
 *   - Every desc, args and options struct starts with struct_size and is set up by its _init function or
 *     by TDM_INIT(type). Fields added later are read only when struct_size says they are there; a struct
 *     longer than the library knows must be zero past what it knows.
 *   - Structs held by value in others (tensor, cache, cache data) end in spare fields that must be zero.
 *   - Shapes are written [outermost, ..., innermost]. A stride is in bytes; 0 stands for dense. The
 *     innermost dimension is always contiguous.
 *   - Data pointers must be readable by the op's device and aligned to their element. No input is read
 *     past its last element. Outputs may alias no input (which is not checked).
 *   - create() validates, picks the kernels and allocates; run() checks lengths and pointers, computes,
 *     and neither allocates nor reads the environment. On the CPU run() blocks until it is done and does not
 *     look at `stream`, which may be NULL. On a GPU it enqueues its work on `stream` and returns.
 *   - Arrays of lengths, positions, pointers and trees are host memory on every device, and read before run()
 *     returns. All other pointers are the device's: of tdm_alloc, of the driver, or registered host memory.
 *   - A context and an op may be used by several threads at once. A workspace serves one run at a time.
 *   - A call that fails with BAD_ARG, UNSUPPORTED, NO_DEVICE or NO_MEMORY has changed nothing. After
 *     DEVICE_ERROR the contents of outputs are undefined.
 *   - Any length is 64-bit inside; no product of dimensions may exceed 2^63 - 1 bytes, one of 0 counted as 1. */
#ifndef TANDEM_H
#define TANDEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TDM_API __attribute__((visibility("default")))
#else
#define TDM_API
#endif

/* ---- Version and status ------------------------------------------------- */

#define TDM_VERSION_MAJOR 0
#define TDM_VERSION_MINOR 1
#define TDM_VERSION_PATCH 0
#define TDM_VERSION (TDM_VERSION_MAJOR << 16 | TDM_VERSION_MINOR << 8 | TDM_VERSION_PATCH)

/* The version of the library that is loaded, as TDM_VERSION packs it. */
TDM_API uint32_t tdm_version(void);

/* What went wrong, told apart by what the caller should do about it. */
typedef enum tdm_status {
    TDM_OK = 0,
    TDM_BAD_ARG,     /* wrong on any machine (shape, null pointer, length): fix the call     */
    TDM_UNSUPPORTED, /* well formed, but no kernel of this device takes it: try another      */
    TDM_NO_DEVICE,   /* the device is absent or its backend did not load: use another device */
    TDM_NO_MEMORY,   /* an allocation failed: free something and call again                  */
    TDM_DEVICE_ERROR /* the driver or a library of the device failed: close the context      */
} tdm_status;

/* "TDM_OK", "TDM_BAD_ARG", ...; "unknown status" for any other number. */
TDM_API const char *tdm_status_name(tdm_status status);

/* What this thread's last failed call objected to, as "field: got X, want Y". Valid until the thread's
 * next failing call; never NULL, "" before the first failure. */
TDM_API const char *tdm_last_error(void);

/* Zero-initialise a struct and set its struct_size. A tdm_gqa_desc wants tdm_gqa_desc_init instead: windows of 0 let
 * each token see itself alone. */
#ifdef __cplusplus
#define TDM_INIT(type) (tdm_init_<type>())
#else
#define TDM_INIT(type) ((type){.struct_size = sizeof(type)})
#endif

/* ---- Context -------------------------------------------------------------- */

typedef enum tdm_device_kind { TDM_CPU = 0, TDM_CUDA = 1 } tdm_device_kind;
typedef struct tdm_device {
    tdm_device_kind kind;
    int32_t index; /* the CPU has 0 only */
} tdm_device;

typedef struct tdm_ctx tdm_ctx;             /* devices, thread pool, settings          */
typedef struct tdm_op tdm_op;               /* a validated desc with its kernels        */
typedef struct tdm_workspace tdm_workspace; /* scratch of one run in flight             */

/* One call of parallel_for's task: item i of [0, n) on worker 0 <= worker < threads. */
typedef void (*tdm_task)(void *arg, int64_t i, int worker);

/* The host's own threads. parallel_for calls task(arg, i, worker) once for each i in [0, n) and returns
 * when all are done; no two calls with one worker number may overlap. It may use fewer workers than
 * `threads`, or none but the caller's own thread. */
typedef struct tdm_threads {
    int32_t threads; /* 1..1024 */
    void (*parallel_for)(void *user, int64_t n, tdm_task task, void *arg);
    void *user;
} tdm_threads;

/* The host's own memory for contexts, ops and workspaces. alloc returns NULL when there is none, else
 * `bytes` bytes aligned to `alignment` (a power of two up to 4096). free takes what alloc returned. */
typedef struct tdm_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment);
    void (*free)(void *user, void *pointer);
    void *user;
} tdm_allocator;

/* One finished run, given to the trace callback on the thread that called run. */
typedef struct tdm_event {
    const char *op;   /* "gqa"                                                          */
    const char *impl; /* "flash"                                                        */
    const char *leaf; /* "avx2"; the leaf row the impl called; "" on a GPU              */
    uint64_t ns;      /* wall time of the run; on a GPU, of enqueueing it               */
    uint64_t bytes;   /* ideal traffic of this call: each input and output byte once    */
    uint64_t flops;   /* ideal work of this call: two per multiply-add, masked keys not */
} tdm_event;

typedef enum tdm_log_level { TDM_LOG_OFF = 0, TDM_LOG_ERROR, TDM_LOG_WARN, TDM_LOG_INFO } tdm_log_level;

typedef struct tdm_options {
    size_t struct_size;
    int32_t threads;                /* 0: TANDEM_THREADS, else one per core this process may use; 1..1024 */
    const tdm_threads *host;        /* the host's pool; NULL: our own. Read during tdm_open only         */
    const tdm_allocator *allocator; /* NULL: the C library's. Read during tdm_open only                  */
    void (*log)(void *user, tdm_log_level level, const char *message); /* NULL: silent, but see TANDEM_LOG */
    void (*trace)(void *user, const tdm_event *event); /* NULL: runs are not timed, but see TANDEM_TRACE */
    void *user;             /* handed to log and trace                                            */
    const char *const *env; /* "NAME=value" strings up to a NULL, read in place of the process's
                              * environment; an empty list ignores it. NULL: the process's own       */
} tdm_options;

/* Open a context: read the environment once, find the devices, start the threads.
 *
 * version    TDM_VERSION of the header the caller was built with
 * options    NULL for the defaults. What an option sets holds; the environment (docs/environment.md)
 *            fills what is left at its default and can only take kernels away
 * ctx        receives the context; NULL after a failure
 * BAD_ARG when the version is not this library's or a TANDEM_ variable is not understood (the message lists
 * what it may be). A missing GPU is never an error here. After fork() the child may only close it. */
TDM_API tdm_status tdm_open(uint32_t version, const tdm_options *options, tdm_ctx **ctx);

/* Join the threads and free the context. NULL is fine. Destroy and free first what was made with it. */
TDM_API void tdm_close(tdm_ctx *ctx);

/* ---- What there is: devices, kernels, settings ------------------------------ */

typedef struct tdm_device_info {
    size_t struct_size;
    int32_t present;    /* 0: a run on it would give NO_DEVICE; reason says why          */
    int32_t threads;    /* workers of the context's pool; 0 on a GPU                     */
    char name[128];     /* the product's name                                            */
    char features[512]; /* "avx2 fma f16c", "sm_90 multiprocessors:132"                  */
    char reason[256];   /* why it is absent, or ""                                       */
    int64_t memory;     /* bytes; 0 when unknown                                         */
    int64_t cache[3];   /* data bytes of L1 and L2 of one core and of L3; 0 when unknown */
} tdm_device_info;

/* Describe a device. BAD_ARG for a kind or index that cannot exist; an absent GPU is described. */
TDM_API tdm_status tdm_device_get(const tdm_ctx *ctx, tdm_device device, tdm_device_info *info);

/* A row of a dispatch table: an impl (one way to run an op) or a leaf (the inner kernels of one
 * instruction set). Rows come in the order in which dispatch tries them. */
typedef struct tdm_kernel {
    size_t struct_size;
    const char *op;   /* the impl's op; "" for a leaf, which serves all ops                 */
    const char *name; /* as TANDEM_SKIP takes it                                            */
    int32_t is_leaf;
    int32_t approximate; /* gives up the numeric contract; used only when the environment lets it in */
    int32_t usable;      /* by this context on this machine                                  */
    char reason[256];    /* why not, or ""                                                   */
} tdm_kernel;

/* Row `index` of a device's tables, impls first. BAD_ARG past the last row, NO_DEVICE for an absent device. */
TDM_API tdm_status tdm_kernel_get(const tdm_ctx *ctx, tdm_device device, int32_t index, tdm_kernel *kernel);

/* A variable that the library reads. */
typedef struct tdm_setting {
    size_t struct_size;
    const char *name, *meaning;
    const char *value; /* as read when the context was opened; NULL when it was not set */
} tdm_setting;

/* Row `index` of the variables. BAD_ARG past the last row. */
TDM_API tdm_status tdm_setting_get(const tdm_ctx *ctx, int32_t index, tdm_setting *setting);

/* ---- Device memory ----------------------------------------------------------- */

typedef enum tdm_memory { TDM_DEVICE_MEMORY = 0, TDM_PINNED_HOST = 1 } tdm_memory;

/* Memory that a device reads, 64-byte aligned; on the CPU both kinds are plain memory. bytes 0 gives NULL.
 * The host's allocator serves the CPU. Pinned memory is host memory, which a GPU may use in place of its own, too. Free
 * what a GPU uses when its work is done. */
TDM_API tdm_status tdm_alloc(tdm_ctx *ctx, tdm_device device, tdm_memory kind, size_t bytes, void **pointer);
TDM_API void tdm_free(tdm_ctx *ctx, tdm_device device, tdm_memory kind, void *pointer);

/* Copy between devices. Between CPU pointers it is done on return; with a GPU it is enqueued on `stream`, one of the GPU's
 * (of `to` where both are GPUs): host memory that is neither pinned nor registered is slower, and must like all other
 * stay as it is until the copy is done. Pinned and registered memory is TDM_CPU's. */
TDM_API tdm_status tdm_copy(tdm_ctx *ctx, tdm_device to, void *dst, tdm_device from, const void *src, size_t bytes,
                            void *stream);

/* Let a GPU read and write the caller's own host memory, at the same address, and copy it at full speed.
 *
 * pointer    any host memory of the process; mapped read-only: the GPU may only read it
 * bytes      > 0
 * BAD_ARG for NULL, 0 bytes, and memory that is registered already (or is not, to unregister); UNSUPPORTED when the
 * device cannot use host addresses; DEVICE_ERROR when the driver refuses. On the CPU nothing is done. Unregister it
 * before it is freed. */
TDM_API tdm_status tdm_host_register(tdm_ctx *ctx, tdm_device device, void *pointer, size_t bytes);
TDM_API tdm_status tdm_host_unregister(tdm_ctx *ctx, tdm_device device, void *pointer);

/* ---- Streams, marks and graphs ------------------------------------------------- */

/* A stream is a queue of a GPU: a cudaStream_t, the host's own or one of these. NULL is the device's default stream,
 * with which the streams made here are not ordered: sync it, or let them wait for a mark. On the CPU every stream is
 * NULL and all work is done when a call returns, so a program written with streams and marks runs there too.
 * BAD_ARG for a stream or mark of another device, and for what a recording does not allow: nothing is enqueued. */
TDM_API tdm_status tdm_stream_create(tdm_ctx *ctx, tdm_device device, void **stream);
TDM_API void tdm_stream_destroy(tdm_ctx *ctx, tdm_device device, void *stream);

/* Wait on the host until all work of the stream is done. DEVICE_ERROR also reports what failed in it earlier. */
TDM_API tdm_status tdm_stream_sync(tdm_ctx *ctx, tdm_device device, void *stream);

/* A point in a stream. */
typedef struct tdm_mark tdm_mark;
TDM_API tdm_status tdm_mark_create(tdm_ctx *ctx, tdm_device device, tdm_mark **mark);
TDM_API void tdm_mark_destroy(tdm_mark *mark); /* NULL is fine */

/* Set the mark behind all that the stream holds now. */
TDM_API tdm_status tdm_mark_record(tdm_mark *mark, void *stream);

/* Wait on the host until the point where the mark was last recorded is reached; at once when it never was. */
TDM_API tdm_status tdm_mark_sync(tdm_mark *mark);

/* Let what is enqueued on `stream` (of the mark's device) from now on wait for the mark; the host does not wait. */
TDM_API tdm_status tdm_mark_wait(tdm_mark *mark, void *stream);

/* Milliseconds between two marks of one device that were recorded, outside of graphs, and reached. BAD_ARG when one was
 * not. */
TDM_API tdm_status tdm_mark_elapsed(const tdm_mark *first, const tdm_mark *last, float *milliseconds);

/* Runs and copies recorded once, to be enqueued together at less cost. */
typedef struct tdm_graph tdm_graph;

/* From here on what is enqueued on the stream (not NULL) is recorded and not done. Pointers, lengths and host arrays are
 * those of the recorded calls; the memory behind device pointers is read when the graph runs. UNSUPPORTED on the CPU.
 * Until tdm_graph_end this thread may not allocate, create, free or wait; marks recorded in between have no time. */
TDM_API tdm_status tdm_graph_begin(tdm_ctx *ctx, tdm_device device, void *stream);

/* Stop recording. Ops, workspaces and memory of the recorded calls must outlive the graph. BAD_ARG when the stream does
 * not record, or a call in between was one that it may not be; the stream is usable again in any case. */
TDM_API tdm_status tdm_graph_end(tdm_ctx *ctx, tdm_device device, void *stream, tdm_graph **graph);

/* Enqueue all of it on a stream of its device. One run of a graph at a time. */
TDM_API tdm_status tdm_graph_run(tdm_graph *graph, void *stream);
TDM_API void tdm_graph_destroy(tdm_graph *graph); /* NULL is fine */

/* ---- Tensors ------------------------------------------------------------------- */

typedef enum tdm_dtype {
    TDM_F32 = 1,
    TDM_F16,    /* IEEE binary16                                                      */
    TDM_BF16,   /* the upper half of an f32                                           */
    TDM_F8E4M3, /* OCP "fn" variant: no infinity, 0x7f and 0xff are NaN, largest 448  */
    TDM_E8M0,   /* scales only: 2^(byte - 127), 0xff is NaN                           */
    TDM_I8,     /* -128..127                                                          */
    TDM_I4,     /* two per byte, even index in the low nibble, value = nibble - 8; rows start on a byte,
                 * and an odd row's last high nibble holds 0 (nibble 8) */
    TDM_BOOL,   /* masks only: a byte, 0 for false                                    */
    TDM_BITS    /* masks only: eight per byte, lowest bit first; rows start on a byte */
} tdm_dtype;

/* value = scale * stored; the shape of the dense scales follows from the tensor. A tensor of rank r < 4
 * reads as rank 4 with leading dimensions of 1: [batch, heads, rows, channels]. A scale of 0 stores 0
 * and reads 0. Dynamic scales are absmax / 127 (i8), absmax / 448 (f8e4m3) or extreme / -8 (i4: the first value
 * of the largest magnitude, so the scale may be negative) of what they cover, and 0 where the reciprocal of that
 * would overflow (magnitudes below about 4e-37 for i8, 2e-38 for i4, 1e-36 for f8e4m3). */
typedef enum tdm_scaling {
    TDM_UNSCALED = 0,
    TDM_PER_TENSOR,  /* [1]                                                  static: given      */
    TDM_PER_CHANNEL, /* [heads, channels]                                    static: given      */
    TDM_PER_TOKEN,   /* [batch, heads, rows]                                 dynamic: written   */
    TDM_PER_BLOCK,   /* [ceil(rows / block[0]), ceil(channels / block[1])]   of a weight matrix */
    TDM_PER_GROUP    /* [batch, heads, rows, ceil(channels / block[1])]      dynamic: written   */
} tdm_scaling;

/* The description of a tensor; it holds no data. */
typedef struct tdm_tensor {
    tdm_dtype dtype;
    tdm_dtype scale_dtype; /* 0: f32; PER_BLOCK also takes bf16 and e8m0 */
    int32_t rank;          /* 1..4                                       */
    tdm_scaling scaling;
    int64_t dim[4];    /* dim[0..rank), outermost first, each >= 0 and at least 1 where an op says so */
    int64_t stride[4]; /* bytes between neighbours of each dimension; 0: dense, the least that clears the
                            * dimensions inside. The last must be 0 or the element's size; i4 tensors count
                            * the bytes of packed pairs                                                  */
    int64_t block[2];  /* PER_BLOCK: rows and channels that share a scale, each >= 1; PER_GROUP: 1 and
                            * the channels of a group, a multiple of 16; else 0                          */
    int64_t spare[4];
} tdm_tensor;

/* A key/value cache: what append writes and gqa reads, described once.
 *
 *   stored row = rotate(key - k_offset) / scale    of keys after RMSNorm and rotary; values have no offset
 *
 * rotate is the orthonormal Walsh-Hadamard transform of each block of the row's channels, a block being the
 * largest power of two that divides their number. It spreads a large channel over its block, and gqa rotates q
 * alike and its output back, so that results differ by rounding only. k_offset, a typical key, shifts all
 * scores of a query by q . k_offset; gqa adds that wherever it is not cancelled by the softmax. Both make INT4
 * keys usable (docs/quality.md).
 *
 * A ring keeps the first ring_sinks positions for ever and the newest of the others: position p lies in row p
 * where p < ring_sinks, else in row ring_sinks + (p - ring_sinks) % (capacity - ring_sinks). Appending evicts
 * what lay there. Lengths and positions stay absolute and may exceed the capacity. gqa then needs a window:
 * window_left + q_len <= capacity - ring_sinks as soon as kv_len exceeds the capacity. Taking back the newest n
 * positions is exact while n <= capacity - ring_sinks - window_left - (the next q_len). After that kv_len may lie
 * below the capacity although rows were evicted: keep the rule yourself then, or let tdm_cache_truncate do so.
 * Rotary positions stay below rotary.positions; `positions` of the host's own let a ring run on for ever. */
typedef struct tdm_kv_cache {
    tdm_tensor k; /* [batch, kv_heads, capacity, head_dim]    f32, f16, bf16 (UNSCALED), f8e4m3 (UNSCALED too),  */
    tdm_tensor v; /* [batch, kv_heads, capacity, v_head_dim]  i8 or i4 (PER_TENSOR, PER_CHANNEL, PER_TOKEN,
                   * PER_GROUP). The two may differ in all but the first three dimensions; channels 1..1024 */
    int32_t rotate_k, rotate_v; /* 1: rows are stored rotated                   */
    int32_t has_k_offset;       /* 1: k_offset is given and subtracted          */
    int32_t ring;               /* 1: a ring of `capacity` rows                 */
    int32_t ring_sinks;         /* positions a ring never evicts: 0..capacity-1 */
    int32_t spare[11];
} tdm_kv_cache;

/* The memory of one cache. Scales are f32 and dense; NULL where the tensor is UNSCALED. */
typedef struct tdm_kv_data {
    void *k, *v;
    float *k_scale, *v_scale;
    const float *k_offset; /* [kv_heads, head_dim]; NULL exactly when has_k_offset is 0 */
    void *spare[3];
} tdm_kv_data;

/* RMSNorm of each head's row: y = x / sqrt(mean of x^2 + epsilon) * weight. */
typedef struct tdm_norm {
    tdm_dtype dtype; /* of the weight [head_dim]: f32, f16 or bf16; 0: no norm */
    float epsilon;   /* >= 0, finite                                           */
} tdm_norm;

/* Rotary position embedding of the first `dim` channels; position p reads row p of the tables.
 *
 *   y[a] = x[a] * cos[i] - x[b] * sin[i],  y[b] = x[b] * cos[i] + x[a] * sin[i],  0 <= i < dim / 2
 *   a = i, b = i + dim / 2 (half-split), or a = 2 i, b = 2 i + 1 (interleaved)
 *
 * cos and sin are [positions, dim / 2], dense. Su et al., RoFormer, 2021. */
typedef struct tdm_rotary {
    tdm_dtype dtype;   /* of cos and sin: f32, f16 or bf16; 0: no rotary */
    int32_t dim;       /* even, 2..head_dim                              */
    int32_t positions; /* rows of the tables, 1 or more                  */
    int32_t interleaved;
} tdm_rotary;

/* ---- Ops: what they share --------------------------------------------------------- */

/* Free an op. NULL is fine. Destroy its workspaces first. */
TDM_API void tdm_op_destroy(tdm_op *op);

/* Bytes of scratch that one run in flight needs; 0: run takes a NULL workspace. */
TDM_API tdm_status tdm_workspace_size(const tdm_op *op, size_t *bytes);

/* Make the workspace of one run in flight. On a GPU a run is in flight until its stream has done it; runs on one stream
 * may share a workspace.
 *
 * memory     the device's, 64-byte aligned, of at least tdm_workspace_size bytes, the caller's until destroy; or
 *            NULL: taken from the context's allocator, or from the GPU
 * bytes      size of memory; ignored when it is NULL */
TDM_API tdm_status tdm_workspace_create(const tdm_op *op, void *memory, size_t bytes, tdm_workspace **workspace);
TDM_API void tdm_workspace_destroy(tdm_workspace *workspace);

/* The lengths of a run that dispatch looks at. */
typedef struct tdm_lengths {
    size_t struct_size;
    int64_t m;             /* fp8_matmul: rows                                */
    int64_t q_len, kv_len; /* gqa: the longest sequence's; kv_append: q_len; qk and sv: rows and keys */
} tdm_lengths;

/* Say which impl and leaf a run of these lengths will use, and why each other row is passed over.
 *
 * choices    receives up to `capacity` rows, impls first and then leaves, in dispatch order; the one
 *            impl and (on the CPU) the one leaf that will run have usable = 1 and an empty reason. Set struct_size
 *            of each
 * count      receives the number of rows there are */
TDM_API tdm_status tdm_explain(const tdm_op *op, const tdm_lengths *lengths, tdm_kernel *choices, int32_t capacity,
                               int32_t *count);

/* ---- kv_append ------------------------------------------------------------------------ */

/* Append tokens to a cache: norm, rotary, offset, rotation and quantization in one pass.
 *
 *   cache[b, h, pos[b] + i, :] = store(rotate(rope(norm(k[b, h, i, :])) - k_offset) / scale), i in [0, new_len[b])
 *   store: round half to even, clamp to [-128, 127], [-8, 7] or +-448; f16 and bf16 round to nearest even
 *
 * Each step is rounded to f32, so the bytes are determined (docs/numerics.md). i8 and i4 multiply by 1 / scale, as
 * ONNX Runtime's GroupQueryAttention does; f8e4m3 divides. A NaN is stored as 0 under a static i8 or i4 scale; a
 * dynamic scale that covers a NaN or an infinity is NaN, and so reads back as NaN.
 *
 * To truncate a sequence, append at a smaller pos and give gqa the smaller length; what lies behind is not read.
 * With `past` the sequence's first pos[b] rows are copied from another cache first, byte for byte, so that a host
 * whose past and present are two buffers pays one copy; without it the rows are expected in place.
 * Sequence b starts at b * stride[0], however few its tokens are: decode buffers of one token want an op of their
 * own, or the stride of the larger ones. past may not be the cache itself.
 * A packed projection [batch, tokens, (q_heads + 2 kv_heads) * head_dim] is three strided tensors: k starts
 * q_heads * head_dim elements in, v another kv_heads * head_dim, and all share the strides. */
typedef struct tdm_kv_append_desc {
    size_t struct_size;
    tdm_tensor k, v; /* [batch, kv_heads, max_new, head_dim of k and of v]; f32, f16 or bf16 */
    tdm_kv_cache cache;
    tdm_norm k_norm;
    tdm_rotary rotary; /* of k */
    tdm_kv_cache past; /* like cache, its strides and capacity its own, no ring; k.rank 0: none */
} tdm_kv_append_desc;

typedef struct tdm_kv_append_args {
    size_t struct_size;
    const void *k, *v;
    tdm_kv_data cache;        /* dynamic scales of the new rows are written, other scales read              */
    const int32_t *new_len;   /* [batch] tokens of each sequence in k and v: 0..max_new; in a ring at most
                             * capacity - ring_sinks                                                       */
    const int32_t *pos;       /* [batch] the position of the first: 0.., pos + new_len <= capacity but in a ring */
    const void *k_norm;       /* [head_dim] the norm's weight; NULL exactly without it                      */
    const void *cos, *sin;    /* the rotary tables; NULL exactly without it                                 */
    const int32_t *positions; /* [batch, max_new] rotary positions, 0..rotary.positions - 1; NULL: pos + i.
                               * Draft tokens of a tree want their depths, as gqa has them                  */
    tdm_kv_data past;         /* read only; its static scales and k_offset are not looked at; zero without */
} tdm_kv_append_args;

TDM_API tdm_status tdm_kv_append_create(tdm_ctx *ctx, tdm_device device, const tdm_kv_append_desc *desc, tdm_op **op);
TDM_API tdm_status tdm_kv_append_run(const tdm_op *op, tdm_workspace *workspace, void *stream,
                                     const tdm_kv_append_args *args);

/* ---- gqa -------------------------------------------------------------------------------- */

/* What `scores` receives. */
typedef enum tdm_capture {
    TDM_CAPTURE_NONE = 0,
    TDM_CAPTURE_SCORES,       /* what enters the softmax; -infinity where a key is not visible */
    TDM_CAPTURE_PROBABILITIES /* what leaves it; 0 where a key is not visible; with a sink they sum to less than 1 */
} tdm_capture;

/* Grouped-query attention over a cache; query head h reads kv head h / (q_heads / kv_heads).
 *
 *   q' = rope(norm(q)) * scale
 *   s[j] = cap(q' . key[j]) + bias[b, h, i, j] - slope[h] * |position - j|,   cap(x) = softcap * tanh(x / softcap)
 *   p[j] = exp(s[j]) / (sum of exp(s) over the visible keys + exp(sink[h]))
 *   out  = sum over visible j of p[j] * value[j];   lse = natural log of that denominator
 *
 * Terms whose desc field is absent are left out. Query i of q_len[b] sits at position kv_len[b] - q_len[b] + i
 * (kv_len counts this call's tokens). Key j is visible when
 *   - 0 <= j < kv_len[b] and position - window_left <= j <= position + window_right, where -1 stands for
 *     unlimited and causal is window_right = 0; or j < sink_tokens and j <= position + window_right;
 *   - mask[b, h, i, j] is true, and bias[b, h, i, j] is not -infinity.
 * With a tree, new token t (key kv_len - q_len + t) is visible exactly when bit t of tree[b, i] is set, where bit i
 * must be (a query sees itself), and mask and bias allow it. A new token's position, as a query and as a key for
 * the slope, is then kv_len - q_len - 1 + the number of bits set in its own row; windows hold for the older keys.
 *
 * A row that sees no key gives 0 and lse = -infinity (with a sink: the sink). Rows from q_len[b] on are not
 * written. A NaN that a row does not see never reaches that row. Softmax follows the online method of Milakov and
 * Gimelshein, 2018. Error bound: docs/numerics.md. New tokens are seen only through the cache: append first. A
 * call without an append shares another layer's keys. To keep an accepted path of a tree whose rows are not
 * neighbours, append its tokens again. Sequence b starts at b * stride[0], however few its queries are.
 * batch, heads, max_q and capacity are at least 1 and at most 2^31 - 1. */
typedef struct tdm_gqa_desc {
    size_t struct_size;
    tdm_tensor q;   /* [batch, q_heads, max_q, head_dim]    f32, f16 or bf16; q_heads % kv_heads == 0 */
    tdm_tensor out; /* [batch, q_heads, max_q, v_head_dim]  of q's dtype                              */
    tdm_kv_cache cache;
    float scale;          /* 0: 1 / sqrt(head_dim); finite, negative too         */
    int32_t window_left;  /* keys before a query's own position it sees; -1: all */
    int32_t window_right; /* keys after it; 0: causal; -1: all                   */
    int32_t sink_tokens;  /* first positions that stay visible outside the window; in a ring <= ring_sinks */
    tdm_norm q_norm;
    tdm_rotary rotary;      /* of q                                                        */
    float softcap;          /* 0: none; positive and finite                                */
    int32_t has_head_sink;  /* 1: args.head_sink joins the denominator                    */
    int32_t smooth_softmax; /* 1: the sink is 0 for every head; not with has_head_sink    */
    int32_t has_alibi;      /* 1: args.alibi holds the slopes                             */
    int32_t has_tree;       /* 1: args.tree replaces the windows among the new tokens; max_q <= 64 */
    tdm_tensor bias;        /* [batch or 1, q_heads or 1, max_q or 1, keys] f32, f16 or bf16; rank 0: none */
    tdm_tensor mask;        /* the same shapes, bool or bits                                  */
    tdm_tensor scores;      /* [batch, q_heads, max_q, keys] f32, f16 or bf16, columns from kv_len on are
                             * written as not visible; rank 0 exactly without a capture       */
    tdm_capture capture;
} tdm_gqa_desc;

/* Zero the desc and set the windows to causal (-1, 0). */
TDM_API void tdm_gqa_desc_init(tdm_gqa_desc *desc);

typedef struct tdm_gqa_args {
    size_t struct_size;
    const void *q;
    tdm_kv_data cache;     /* read only                               */
    const int32_t *q_len;  /* [batch] 0..max_q; host memory            */
    const int32_t *kv_len; /* [batch] 0..capacity, in a ring any; at most the keys of bias, mask and scores */
    void *out;
    float *lse;               /* [batch, q_heads, max_q] dense, or NULL                                 */
    const void *q_norm;       /* [head_dim] the norm's weight; NULL exactly without it                 */
    const void *cos, *sin;    /* the rotary tables; NULL exactly without it                            */
    const int32_t *positions; /* [batch, max_q] rotary positions; NULL: each query's own (negative: BAD_ARG) */
    const void *bias, *mask;
    const float *head_sink; /* [q_heads] logits; -infinity: none */
    const float *alibi;     /* [q_heads] slopes            */
    const uint64_t *tree;   /* [batch, max_q], host memory */
    void *scores;
} tdm_gqa_args;

TDM_API tdm_status tdm_gqa_create(tdm_ctx *ctx, tdm_device device, const tdm_gqa_desc *desc, tdm_op **op);
TDM_API tdm_status tdm_gqa_run(const tdm_op *op, tdm_workspace *workspace, void *stream, const tdm_gqa_args *args);

/* ---- merge_states ---------------------------------------------------------------------- */

/* Merge attention over disjoint ranges of keys.
 *
 *   lse = ln(sum over parts of exp(part_lse)),   out = sum over parts of exp(part_lse - lse) * part
 *
 * A part that saw no key (lse -infinity) does not count, whatever it holds; with none left out is 0 and lse
 * -infinity; one of +infinity or NaN makes the row NaN. To attend to a range of keys mask the others, or, in a
 * cache without dynamic scales, move the pointers and give `positions`. A sink is part of the lse that gqa gives:
 * let exactly one of the parts have it. out and lse may be those of a part, if out has the part's dtype and strides.
 * Parts merge in order. Method: FlashDecoding, Dao et al., 2023. */
typedef struct tdm_merge_states_desc {
    size_t struct_size;
    tdm_tensor part;   /* [batch, heads, tokens, channels] f32, f16 or bf16: every part */
    tdm_tensor out;    /* the same dims                    f32, f16 or bf16             */
    int32_t max_parts; /* 1..1024                                                       */
} tdm_merge_states_desc;

typedef struct tdm_merge_states_args {
    size_t struct_size;
    const void *const *part;      /* [parts] */
    const float *const *part_lse; /* [parts] of [batch, heads, tokens] dense */
    int32_t parts;                /* 0..max_parts */
    void *out;
    float *lse; /* [batch, heads, tokens] dense, or NULL */
} tdm_merge_states_args;

TDM_API tdm_status tdm_merge_states_create(tdm_ctx *ctx, tdm_device device, const tdm_merge_states_desc *desc,
                                           tdm_op **op);
TDM_API tdm_status tdm_merge_states_run(const tdm_op *op, tdm_workspace *workspace, void *stream,
                                        const tdm_merge_states_args *args);

/* ---- kv_shift ---------------------------------------------------------------------------- */

/* Drop the oldest tokens of a cache behind its first `sinks`, and turn the keys that move to their new positions.
 *
 *   row r of [sinks, len - drop) becomes row r + drop, its key turned by rotary through -drop positions
 *
 * Rows below sinks stay. Values move byte for byte, keys too without rotary; with it they are widened to f32, taken
 * out of their rotation and offset, turned by row `drop` of the tables (which must hold plain cosines and sines),
 * and stored by kv_append's rules, so that a quantized key is rounded once more and gets a new dynamic scale. In
 * place; rows from len - drop on are left as they are. Keys must have been appended at positions that rise by one from
 * row to row. Not for rings, which need no shift. */
typedef struct tdm_kv_shift_desc {
    size_t struct_size;
    tdm_kv_cache cache;
    tdm_rotary rotary; /* with which the keys were appended */
    int32_t sinks;     /* 0..capacity                       */
} tdm_kv_shift_desc;

typedef struct tdm_kv_shift_args {
    size_t struct_size;
    tdm_kv_data cache;
    const int32_t *len;    /* [batch] rows in use: 0..capacity                                    */
    const int32_t *drop;   /* [batch] 0 or 1..len - sinks, below rotary.positions; 0 does nothing */
    const void *cos, *sin; /* the rotary tables; NULL exactly without rotary                      */
} tdm_kv_shift_args;

TDM_API tdm_status tdm_kv_shift_create(tdm_ctx *ctx, tdm_device device, const tdm_kv_shift_desc *desc, tdm_op **op);
TDM_API tdm_status tdm_kv_shift_run(const tdm_op *op, tdm_workspace *workspace, void *stream,
                                    const tdm_kv_shift_args *args);

/* ---- qk and sv: the two products of attention, for hosts that build their own -------------- */

/* Multiply rows of queries by stored keys, or rows of probabilities by stored values.
 *
 *   qk: out[b, h, i, j] = alpha * sum over c of a[b, h, i, c] * x[b, h / group, j, c]
 *   sv: out[b, h, i, c] = (accumulate ? out[b, h, i, c] : 0) + sum over j of a[b, h, i, j] * x[b, h / group, j, c]
 *
 * x is a cache tensor of any type and scaling, read through its scales; sums are f32, rounded once. No columns (or
 * no keys) make a sum of 0. Error bound: docs/numerics.md. */
typedef struct tdm_product_desc {
    size_t struct_size;
    tdm_tensor a;   /* qk: [batch, q_heads, max_rows, channels], sv: [batch, q_heads, max_rows, max_keys] */
    tdm_tensor x;   /* [batch, kv_heads, max_keys, channels]     any cache type                           */
    tdm_tensor out; /* qk: [batch, q_heads, max_rows, max_keys], sv: [batch, q_heads, max_rows, channels] */
} tdm_product_desc; /* a and out are f32, f16 or bf16 each                                              */

typedef struct tdm_product_args {
    size_t struct_size;
    const void *a, *x;
    const float *x_scale; /* of x, dense; NULL exactly when it is UNSCALED */
    void *out;
    int64_t rows, keys; /* 0..max_rows, 0..max_keys                      */
    float alpha;        /* qk: the factor, finite; sv: not looked at     */
    int32_t accumulate; /* sv: 0 or 1; qk: 0                             */
} tdm_product_args;

TDM_API tdm_status tdm_qk_create(tdm_ctx *ctx, tdm_device device, const tdm_product_desc *desc, tdm_op **op);
TDM_API tdm_status tdm_qk_run(const tdm_op *op, tdm_workspace *workspace, void *stream, const tdm_product_args *args);
TDM_API tdm_status tdm_sv_create(tdm_ctx *ctx, tdm_device device, const tdm_product_desc *desc, tdm_op **op);
TDM_API tdm_status tdm_sv_run(const tdm_op *op, tdm_workspace *workspace, void *stream, const tdm_product_args *args);

/* ---- fp8_matmul ---------------------------------------------------------------------------- */

/* Multiply activations by a block-scaled FP8 weight.
 *
 *   out[i, n] = sum over k of a'[i, k] * b[n, k] * b_scale[n / block[0], k / block[1]]  + bias[n]
 *   a' = a, or e4m3(a / s) * s (W8A8 rounding, saturating at 448, NaN stays NaN; s = 0 gives zeros), where s is a_scale,
 *   or with dynamic_a_scale the largest magnitude of row i of a over 448, by the rules of tdm_scaling
 *
 * Products and sums are f32; the result is rounded once to out's dtype. Error bound: docs/numerics.md.
 * Checkpoints: [N, ceil(K / 128)] scales are block {1, 128}; weight_scale_inv is block {128, 128}; one scale for all
 * weights is block {N, K}. From floats, tdm_quantize to f8e4m3 PER_GROUP makes b and b_scale of block {1, group}. */
typedef struct tdm_fp8_matmul_desc {
    size_t struct_size;
    tdm_tensor a;   /* [max_m, k]  f32, f16 or bf16; max_m and k >= 0                          */
    tdm_tensor b;   /* [n, k]      f8e4m3, PER_BLOCK, scale_dtype f32, bf16 or e8m0            */
    tdm_tensor out; /* [max_m, n]  of a's dtype                                               */
    int32_t has_bias;
    int32_t has_a_scale;     /* 1: one scale for all of a, in args.a_scale      */
    int32_t dynamic_a_scale; /* 1: one for each row of a; not with has_a_scale */
} tdm_fp8_matmul_desc;

typedef struct tdm_fp8_matmul_args {
    size_t struct_size;
    const void *a;
    const void *b;
    const void *b_scale;  /* dense [ceil(n / block[0]), ceil(k / block[1])] of scale_dtype */
    const void *bias;     /* [n] of a's dtype; NULL exactly when has_bias is 0              */
    const float *a_scale; /* one value; NULL exactly when has_a_scale is 0                  */
    int64_t m;            /* rows of a: 0..max_m; 0 does nothing                            */
    void *out;
} tdm_fp8_matmul_args;

TDM_API tdm_status tdm_fp8_matmul_create(tdm_ctx *ctx, tdm_device device, const tdm_fp8_matmul_desc *desc, tdm_op **op);
TDM_API tdm_status tdm_fp8_matmul_run(const tdm_op *op, tdm_workspace *workspace, void *stream,
                                      const tdm_fp8_matmul_args *args);

/* ---- quantize and dequantize ------------------------------------------------------------------ */

/* Convert a tensor to or from a cache type, by the rules of kv_append.
 *
 * One of src and dst is f32, f16 or bf16, UNSCALED: dst of dequantize, src of quantize. The other is any
 * cache type with any cache scaling. Both have the same rank and dims. f8e4m3 may be UNSCALED on its side. */
typedef struct tdm_convert_desc {
    size_t struct_size;
    tdm_tensor src, dst;
} tdm_convert_desc;

typedef struct tdm_convert_args {
    size_t struct_size;
    const void *src;
    void *dst;
    float *scale; /* dense, f32, shaped by the quantized tensor; written by quantize where it is dynamic,
                   * else read; NULL exactly when that tensor is UNSCALED */
} tdm_convert_args;

TDM_API tdm_status tdm_quantize_create(tdm_ctx *ctx, tdm_device device, const tdm_convert_desc *desc, tdm_op **op);
TDM_API tdm_status tdm_quantize_run(const tdm_op *op, tdm_workspace *workspace, void *stream,
                                    const tdm_convert_args *args);
TDM_API tdm_status tdm_dequantize_create(tdm_ctx *ctx, tdm_device device, const tdm_convert_desc *desc, tdm_op **op);
TDM_API tdm_status tdm_dequantize_run(const tdm_op *op, tdm_workspace *workspace, void *stream,
                                      const tdm_convert_args *args);

/* ---- cache: kv_append, gqa and their memory in one object ---------------------------------------- */

/* A cache with its memory, scales and lengths, for a host that wants to append tokens and attend to them and nothing
 * else. It allocates when it is created and never again. Calls on one cache are made one at a time. */
typedef struct tdm_cache tdm_cache;

typedef struct tdm_cache_desc {
    size_t struct_size;
    const tdm_kv_append_desc *append; /* the cache, and how tokens enter it; without a past                       */
    const tdm_gqa_desc *attention;    /* how queries look at it; its cache as in append, or all 0. Without bias, mask,
                                       * tree and capture: for those there is tdm_gqa with tdm_cache_data          */
    const float *k_scale, *v_scale;   /* static scales; NULL exactly where there are none                         */
    const float *k_offset;            /* [kv_heads, head_dim]; NULL exactly without it                            */
    const void *k_norm, *q_norm;      /* from here on as in the args of kv_append and gqa: NULL exactly where the */
    const void *cos, *sin;            /* descs have none; both descs share the tables                             */
    const float *head_sink, *alibi;
} tdm_cache_desc;

/* Create an empty cache. Descs, scales and offset are copied; k_norm and what stands behind it is read by later calls
 * and must outlive the cache. Fails as tdm_kv_append_create and tdm_gqa_create do, with NO_MEMORY, and with BAD_ARG
 * for a ring whose attention has no window. */
TDM_API tdm_status tdm_cache_create(tdm_ctx *ctx, tdm_device device, const tdm_cache_desc *desc, tdm_cache **cache);

/* NULL is fine. Destroy a cache before its context. */
TDM_API void tdm_cache_destroy(tdm_cache *cache);

/* Append new_len[b] tokens to each sequence.
 *
 * k, v       as the append desc describes them: of max_new tokens, however few are new
 * new_len    [batch] 0..max_new, as far as there is room; in a ring at most capacity - ring_sinks, and in one that is
 *            or becomes full window_left less, so that each new token can be looked at
 * BAD_ARG as tdm_kv_append_run; the lengths grow exactly when it returns OK */
TDM_API tdm_status tdm_cache_append(tdm_cache *cache, void *stream, const void *k, const void *v,
                                    const int32_t *new_len);

/* Let queries look at the cache, the last of them at the newest token.
 *
 * q, out     as the attention desc describes them
 * q_len      [batch] 0..max_q
 * lse        [batch, q_heads, max_q] dense, or NULL */
TDM_API tdm_status tdm_cache_attend(tdm_cache *cache, void *stream, const void *q, const int32_t *q_len, void *out,
                                    float *lse);

/* Take back the newest tokens of a sequence, so that `length` are left. BAD_ARG in a ring that has evicted tokens
 * which max_q queries would then see (see tdm_kv_cache); a length of at most ring_sinks is always taken. */
TDM_API tdm_status tdm_cache_truncate(tdm_cache *cache, int32_t sequence, int32_t length);

/* Read the keys and values back as they were appended, up to rounding: out of their rotation and with their offset,
 * but normed and turned. On the CPU only (else UNSUPPORTED).
 *
 * k, v       [batch, kv_heads, capacity, channels] dense; NULL where it is not wanted. Row r is row r of the cache;
 *            rows that hold no token become 0 */
TDM_API tdm_status tdm_cache_dequantize(tdm_cache *cache, float *k, float *v);

/* The tokens of each sequence, [batch], valid until the cache is destroyed. NULL for NULL. */
TDM_API const int32_t *tdm_cache_lengths(const tdm_cache *cache);

/* The cache's memory, for ops of the host's own. What they write into it is not known to the cache. */
TDM_API tdm_status tdm_cache_data(const tdm_cache *cache, tdm_kv_data *data);

#ifdef __cplusplus
} /* extern "C" */

template <class T> static inline T tdm_init_()
{
    T value = T();
    value.struct_size = sizeof(T);
    return value;
}
#endif
#endif
